"""Reader of profile rows, the first generation's files: one building a line, as many cells as it has scatterers.

A line is `d0,s0,d1,s1,…,span,width`, and where the building is labelled `,severity,location` at its end. There is no
header. An even number of cells is all that either kind has, so the caller says which it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.sources.profiles.profile_line import TO_M, TO_MM_PER_M, DistanceUnit, Form, SlopeUnit, parse_line

MAX_LINE_BYTES = 2**20
"""Some 50,000 scatterers."""
LOOKED_AT = 20
"""Lines that tell whether a file is of profile rows."""


@dataclass(frozen=True)
class Profiles:
    """B buildings with N scatterers in all."""

    offsets: NDArray[np.int64]
    """(B + 1,) building b has the scatterers from `offsets[b]` to `offsets[b + 1]`."""
    distance: NDArray[np.float64]
    """(N,) m along the profile, never descending within a building."""
    slope: NDArray[np.float64]
    """(N,) mm/m."""
    span_m: NDArray[np.float64]
    """(B,) length of the building along the profile."""
    width_m: NDArray[np.float64]
    """(B,) across it."""
    severity: NDArray[np.float64]
    """(B,) in the file's unit, which it does not say; NaN where unlabelled."""
    location: NDArray[np.int64]
    """(B,) the file's own code of where the damage is; -1 where unlabelled."""
    line: NDArray[np.int64]
    """(B,) line of the file, from 1."""

    def __len__(self) -> int:
        return len(self.span_m)

    def of(self, building: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Distances (m) and slopes (mm/m) of one building."""
        rows = slice(self.offsets[building], self.offsets[building + 1])
        return self.distance[rows], self.slope[rows]


def read_profiles(
    path: Path, labelled: bool, slope_unit: SlopeUnit = "mm/m", distance_unit: DistanceUnit = "m"
) -> Profiles:
    """Read profile rows; blank lines and empty cells at the end of a line are no part of them.

    Args:
        path: the file.
        labelled: whether each line ends with `severity,location`.
        slope_unit: of the slopes in the file.
        distance_unit: of distances, span and width in the file.

    Raises:
        InputError: the file cannot be read, has no line, or its last line has no end, so that it may be cut; a line has
            an odd number of cells or too few, a cell is no number, distances descend or exceed the span, a size is not
            positive, a slope or a length is beyond what a building has, a label is none.
    """
    form = Form(labelled, slope_unit, distance_unit)
    rows: list[NDArray[np.float64]] = []
    lines: list[int] = []
    try:
        for number, line in _lines(path):
            if not line.endswith(b"\n"):
                long = f"a line longer than {MAX_LINE_BYTES:,} bytes found; profile rows are needed"
                cut = "the last line has no line break, so that the file may be cut; get it whole, or end it with one"
                _refuse(path, number, long if len(line) == MAX_LINE_BYTES else cut)
            values = parse_line(line, form, number == 1)
            if isinstance(values, tuple):
                _refuse(path, number, *values)
            rows.append(values)
            lines.append(number)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None
    if not rows:
        raise InputError(f"{path}: it has no lines. One building a line is needed.")
    tail = form.tail
    pairs = np.concatenate([row[:-tail] for row in rows]).reshape(-1, 2)
    ends = np.array([row[-tail:] for row in rows])
    counts = [(len(row) - tail) // 2 for row in rows]
    unlabelled = np.full(len(rows), np.nan)
    to_m = TO_M[distance_unit]
    return Profiles(
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        distance=pairs[:, 0] * to_m,
        slope=pairs[:, 1] * TO_MM_PER_M[slope_unit],
        span_m=ends[:, 0] * to_m,
        width_m=ends[:, 1] * to_m,
        severity=ends[:, 2] if labelled else unlabelled,
        location=ends[:, 3].astype(np.int64) if labelled else np.full(len(rows), -1, np.int64),
        line=np.array(lines, dtype=np.int64),
    )


def looks_like_profiles(path: Path) -> bool:
    """Whether the first lines are whole profile rows, all with labels or all without, in whatever unit.

    Numbers in pairs are not enough: distances must ascend within the span, so that a table of points that has lost its
    header is none.
    """
    try:
        lines = [line for _, line in itertools.islice(_lines(path), LOOKED_AT)]
    except OSError:
        return False
    # The units in which the most is possible.
    forms = [Form(labelled, "mm/m", "mm") for labelled in (True, False)]
    return bool(lines) and any(
        all(not isinstance(parse_line(line, form, n == 0), tuple) for n, line in enumerate(lines)) for form in forms
    )


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Number and content of the lines that hold something; none is longer than `MAX_LINE_BYTES`."""
    with path.open("rb") as stream:
        for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES), b""), 1):
            if line.strip(b" \t\r\n,"):
                yield number, line


def _refuse(path: Path, line: int, found: str, cell: int | None = None) -> NoReturn:
    place = "" if cell is None else f", cell {cell}"
    raise InputError(f"{path}, line {line}{place}: {found}.")
