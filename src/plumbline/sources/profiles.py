"""Reader of profile rows, the first generation's files: one building a line, as many cells as it has scatterers.

A line is `d0,s0,d1,s1,…,span,width`, and where the building is labelled `,severity,location` at its end. There is no
header. An even number of cells is all that either kind has, so the caller says which it is.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from plumbline.errors import InputError

MAX_LINE_BYTES = 2**20
"""Some 50,000 scatterers."""
MAX_LOCATION = 4
"""Codes of four quadrants, counted from 0 or from 1."""
TO_MM_PER_M = {"mm/m": 1.0, "m/m": 1000.0}
SLACK = 1e-6
"""Of the span, for rounded distances."""


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

    def __len__(self) -> int:
        return len(self.span_m)

    def of(self, building: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Distances (m) and slopes (mm/m) of one building."""
        rows = slice(self.offsets[building], self.offsets[building + 1])
        return self.distance[rows], self.slope[rows]


def read_profiles(path: Path, labelled: bool, slope_unit: Literal["mm/m", "m/m"] = "mm/m") -> Profiles:
    """Read profile rows; blank lines and empty cells at the end of a line are no part of them.

    Args:
        path: the file.
        labelled: whether each line ends with `severity,location`.
        slope_unit: of the slopes in the file.

    Raises:
        InputError: the file cannot be read or has no line; a line has an odd number of cells or too few, a cell is no
            number, distances descend or exceed the span, a size is not positive, a label is none.
    """
    tail = 4 if labelled else 2
    rows: list[list[float]] = []
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES), b""), 1):
                if len(line) == MAX_LINE_BYTES:
                    _refuse(path, number, f"a line longer than {MAX_LINE_BYTES:,} bytes found; profile rows are needed")
                if line.strip(b" \t\r\n,"):
                    rows.append(_parse(path, number, line, tail))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None
    if not rows:
        raise InputError(f"{path}: it has no lines. One building a line is needed.")
    pairs = np.concatenate([row[:-tail] for row in rows]).reshape(-1, 2)
    ends = np.array([row[-tail:] for row in rows])
    counts = [(len(row) - tail) // 2 for row in rows]
    unlabelled = np.full(len(rows), np.nan)
    return Profiles(
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        distance=pairs[:, 0],
        slope=pairs[:, 1] * TO_MM_PER_M[slope_unit],
        span_m=ends[:, 0],
        width_m=ends[:, 1],
        severity=ends[:, 2] if labelled else unlabelled,
        location=ends[:, 3].astype(np.int64) if labelled else np.full(len(rows), -1, np.int64),
    )


def _parse(path: Path, number: int, line: bytes, tail: int) -> list[float]:
    cells = line.decode("utf-8-sig" if number == 1 else "utf-8", "backslashreplace").rstrip(" \t\r\n,").split(",")
    form = "d0,s0,d1,s1,…,span,width" + (",severity,location" if tail == 4 else "")
    if len(cells) < tail + 2 or len(cells) % 2:
        _refuse(path, number, f"{len(cells)} cells found, an even number from {tail + 2} up is needed ({form})")
    values = [_number(path, number, index, cell) for index, cell in enumerate(cells, 1)]
    distance, ends = values[:-tail:2], values[-tail:]
    for index, (one, two) in enumerate(itertools.pairwise(distance)):
        if two < one:
            found = f"distance {two:g} m after {one:g} m found, distances ascend"
            _refuse(path, number, found, 2 * index + 3)
    for name, value, place in zip(
        ("span", "width"), ends, (len(values) - tail + 1, len(values) - tail + 2), strict=False
    ):
        if value <= 0:
            _refuse(path, number, f"{name} of {value:g} m found, a positive one is needed", place)
    if distance[-1] - distance[0] > ends[0] * (1 + SLACK):
        found = f"distances over {distance[-1] - distance[0]:g} m found, the span is {ends[0]:g} m"
        advice = "does the file have labels at the ends of its lines" if tail == 2 else "does the file lack labels"
        _refuse(path, number, f"{found}; {advice}, or not as was said", len(values) - tail + 1)
    if tail == 4:
        severity, location = ends[2:]
        if severity < 0:
            _refuse(path, number, f"severity {severity:g} found, 0 or more is needed", len(values) - 1)
        if location != int(location) or not 0 <= location <= MAX_LOCATION:
            _refuse(
                path, number, f"location {location:g} found, a code from 0 to {MAX_LOCATION} is needed", len(values)
            )
    return values


def _number(path: Path, number: int, index: int, cell: str) -> float:
    try:
        value = float(cell.replace("_", "?"))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        _refuse(path, number, f"{cell.strip()[:60]!r} found, a number is needed", index)
    return value


def _refuse(path: Path, line: int, found: str, cell: int | None = None) -> NoReturn:
    place = "" if cell is None else f", cell {cell}"
    raise InputError(f"{path}, line {line}{place}: {found}.")
