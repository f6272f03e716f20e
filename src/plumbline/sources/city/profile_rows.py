"""Read the first generation's rows.

A line is `d0,s0,d1,s1,…,span,width`, and where the building is labelled
`,severity,location` at its end. There is no header. An even number of cells is all that
either kind has, so the caller states which it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.params import Ingest
from plumbline.params.ingest import ProfileRows
from plumbline.sources.city.files import (
    BINARY_SUFFIXES,
    LABELS,
    NOT_PRODUCTS,
    NOTES,
)
from plumbline.sources.files.opened import product_params
from plumbline.sources.footprints.shapefile import PARTS
from plumbline.sources.footprints.source import VECTOR_SUFFIXES

MAX_LOCATION = 4
"""Codes of four quadrants, counted from 0 or from 1."""
MAX_SLOPE_MM_PER_M = 1000.0
"""Largest slope of a building, 45 degrees: beyond it the unit is another one."""
MAX_LENGTH_M = 1e5
"""Largest length of a building, and largest distance along one."""
TO_MM_PER_M = {"mm/m": 1.0, "m/m": 1000.0}
TO_M = {"m": 1.0, "cm": 0.01, "mm": 0.001}
SLACK = 1e-6
"""Share of the span that is allowed for rounded distances."""
SlopeUnit = Literal["mm/m", "m/m"]
DistanceUnit = Literal["m", "cm", "mm"]


class LineProblem(NamedTuple):
    """Problem of a line, and the key of its check."""

    text: str
    key: str
    cell: int | None = None
    """Number of the cell, from 1."""


@dataclass(frozen=True)
class Form:
    """Stated form of the lines of a file."""

    labelled: bool
    """True if each ends with `severity,location`."""
    slope_unit: SlopeUnit = "mm/m"
    distance_unit: DistanceUnit = "m"
    """Unit of distances, span and width."""

    @property
    def tail(self) -> int:
        """Cells after the pairs."""
        return 4 if self.labelled else 2

    def __str__(self) -> str:
        return "d0,s0,d1,s1,…,span,width" + (",severity,location" if self.labelled else "")


def parse_line(line: bytes, form: Form, first: bool) -> NDArray[np.float64] | LineProblem:
    """Return the numbers of a line, in the file's units, or the problem with it; empty
    cells at its end are ignored.

    Args:
        line: of any length, with or without its line break.
        form: the form that the caller states.
        first: whether it begins the file, where there may be a byte order mark.
    """
    cells = (
        line.decode("utf-8-sig" if first else "utf-8", "backslashreplace")
        .rstrip(" \t\r\n,")
        .split(",")
    )
    if len(cells) < form.tail + 2 or len(cells) % 2:
        return LineProblem(
            f"{len(cells)} cells found, an even number from {form.tail + 2} up is needed ({form})",
            "profiles.cell_count",
        )
    values = np.array([_parse_cell(cell) for cell in cells])
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        return LineProblem(
            f"{cells[bad[0]].strip()[:60]!r} found, a number is needed",
            "profiles.not_a_number",
            int(bad[0]) + 1,
        )
    if (problem := _find_problem(values, form)) is not None:
        return problem
    padded = line.rstrip(b" \t\r\n").endswith(b",")
    if (
        form.labelled
        and padded
        and len(cells) >= 4
        and _find_problem(values, replace(form, labelled=False)) is None
    ):
        return LineProblem(
            "empty cells found at the end, and the last two numbers may be labels or span and "
            "width; remove the empty cells, and write rows without labels into a file of their own",
            "profiles.ambiguous_end",
        )
    return values


def _parse_cell(cell: str) -> float:
    """Return a cell as a number; NaN if it is not one."""
    with suppress(ValueError):
        return float(cell.replace("_", "?"))
    return math.nan


def _find_problem(values: NDArray[np.float64], form: Form) -> LineProblem | None:
    """Return the first problem that keeps an even number of finite values from being a row;
    None for a valid row."""
    count, pairs = len(values), len(values) - form.tail
    distance, span = values[:pairs:2], values[pairs]
    cell = np.arange(count)
    is_slope, is_size = (cell < pairs) & (cell % 2 == 1), (cell >= pairs) & (cell < pairs + 2)
    is_length = (cell < pairs + 2) & ~is_slope
    descends = np.zeros(count, bool)
    descends[2:pairs:2] = np.diff(distance) < 0
    is_wide = distance[-1] - distance[0] > span * (1 + SLACK)
    max_length, max_slope = (
        MAX_LENGTH_M / TO_M[form.distance_unit],
        MAX_SLOPE_MM_PER_M / TO_MM_PER_M[form.slope_unit],
    )
    is_severity, is_location = ((cell == count - at) & form.labelled for at in (2, 1))
    no_code = (values != np.floor(values)) | (values < 0) | (values > MAX_LOCATION)
    # fmt: off
    for key, is_bad, wanted in (
        ("profiles.not_ascending", descends, f"distances in {form.distance_unit} ascend"),
        ("profiles.not_positive", is_size & (values <= 0), "span and width are positive"),
        ("profiles.beyond_span", (cell == pairs) & is_wide,
            f"distances go over {distance[-1] - distance[0]:g}; check whether the rows have labels"),
        ("profiles.impossible_length", is_length & (np.abs(values) > max_length),
            f"at most {max_length:g} {form.distance_unit} are possible"),
        ("profiles.impossible_slope", is_slope & (np.abs(values) > max_slope),
            f"a slope of at most {max_slope:g} {form.slope_unit} is possible"),
        ("profiles.negative_severity", is_severity & (values < 0), "a severity of 0 or more is "
                                                                   "needed"),
        ("profiles.unknown_location", is_location & no_code, "a location from 0 to "
                                                             f"{MAX_LOCATION} is needed"),
    ):
        # fmt: on
        if is_bad.any():
            bad = int(np.argmax(is_bad))
            return LineProblem(f"{values[bad]:g} found, {wanted}", key, bad + 1)
    return None


MAX_LINE_BYTES = 2**20
"""Length of the longest line: some 50,000 scatterers."""
TOO_LONG = LineProblem(
    f"a line longer than {MAX_LINE_BYTES:,} bytes found; profile rows are needed",
    "profiles.long_line",
)
CUT_OFF = LineProblem(
    "the last line has no line break, so the file may be cut off; get it whole, or end it with one",
    "profiles.cut_off",
)
LOOKED_AT = 20
"""Number of lines by which a file of profile rows is recognised."""


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
    """(B,) in the file's unit, which it does not state; NaN where unlabelled."""
    location: NDArray[np.int64]
    """(B,) the file's own code of where the damage is; -1 where unlabelled."""
    line: NDArray[np.int64]
    """(B,) line of the file, from 1."""

    def __len__(self) -> int:
        return len(self.span_m)

    def of(self, building: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return distances (m) and slopes (mm/m) of one building."""
        rows = slice(self.offsets[building], self.offsets[building + 1])
        return self.distance[rows], self.slope[rows]


def read_profiles(
    path: Path, labelled: bool, slope_unit: SlopeUnit = "mm/m", distance_unit: DistanceUnit = "m"
) -> Profiles:
    """Read profile rows; blank lines and empty cells at the end of a line are ignored.

    Args:
        path: the file.
        labelled: whether each line ends with `severity,location`.
        slope_unit: of the slopes in the file.
        distance_unit: of distances, span and width in the file.

    Raises:
        InputError: the file cannot be read, has no line, or its last line has no end, so
            that it may be cut; a line has an odd number of cells or too few, a cell is no
            number, distances descend or exceed the span, a size is not positive, a slope or
            a length is beyond what a building has, a label is none.
    """
    form = Form(labelled, slope_unit, distance_unit)
    rows: list[NDArray[np.float64]] = []
    lines: list[int] = []
    try:
        for number, line in _lines(path):
            if not line.endswith(b"\n"):
                _raise_at(path, number, TOO_LONG if len(line) == MAX_LINE_BYTES else CUT_OFF)
            values = parse_line(line, form, number == 1)
            if isinstance(values, tuple):
                _raise_at(path, number, values)
            rows.append(values)
            lines.append(number)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.", key="file.missing") from None
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error}).", key="file.unreadable"
        ) from None
    if not rows:
        raise InputError(
            f"{path}: it has no lines. One building a line is needed.", key="profiles.none"
        )
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
    """Return whether the first lines are whole profile rows, all with labels or all
    without, in any unit.

    Numbers in pairs are not enough: distances must ascend within the span, so that a table
    of points that has lost its header is none.
    """
    try:
        lines = [line for _, line in itertools.islice(_lines(path), LOOKED_AT)]
    except OSError:
        return False
    # The units in which the most is possible.
    forms = [Form(labelled, "mm/m", "mm") for labelled in (True, False)]
    return bool(lines) and any(
        all(not isinstance(parse_line(line, form, n == 0), tuple) for n, line in enumerate(lines))
        for form in forms
    )


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of the lines that are not empty, each of at most
    `MAX_LINE_BYTES`."""
    with path.open("rb") as stream:
        for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES), b""), 1):
            if line.strip(b" \t\r\n,"):
                yield number, line


def _raise_at(path: Path, line: int, problem: LineProblem) -> NoReturn:
    place = "" if problem.cell is None else f", cell {problem.cell}"
    raise InputError(f"{path}, line {line}{place}: {problem.text}.", key=problem.key)


OTHER_INPUTS = frozenset({".csv", ".zip", *BINARY_SUFFIXES, *VECTOR_SUFFIXES, *PARTS})
"""Suffixes of files that may be meant as inputs beside profile rows; others are passed over."""


@dataclass(frozen=True)
class ProfileFiles:
    """Files of one city folder of profile rows, each with its settings."""

    name: str
    files: tuple[tuple[Path, ProfileRows], ...]

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return self.files[0][0].parent

    def paths(self, params: Ingest) -> list[Path]:
        """All files that the result can depend on."""
        return [path for path, _ in self.files]


def find_profiles(folder: Path, params: Ingest) -> ProfileFiles | None:
    """Find the files of a city folder of profile rows; None if the folder has other files only.

    A csv is of profile rows where `ingest.products` states it, or else by its content.

    Raises:
        InputError: there are other files beside them, or params lack what the rows leave open.
    """
    if not folder.is_dir():
        return None
    files: list[tuple[Path, ProfileRows | None]] = []
    other_inputs = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.is_file() or path.suffix.lower() in NOTES:
            continue
        product = product_params(path, params.products)
        silent = product.format is None and not product.columns
        likely = path.suffix.lower() == ".csv" and not path.stem.lower().startswith(NOT_PRODUCTS)
        if product.profiles or (likely and silent and looks_like_profiles(path)):
            files.append((path, product.profiles))
        elif path.name == LABELS or path.suffix.lower() in OTHER_INPUTS:
            other_inputs.append(path.name)
    if not files:
        return None
    if other_inputs:
        raise InputError(
            f"{folder}: {', '.join(other_inputs[:5])} found beside {files[0][0].name}, which has "
            "profile rows. Those name no footprint and hold their labels themselves: give them a "
            "folder of their own, or let the pattern in params.yaml (ingest.products) fit them "
            "alone.",
            key="profiles.other_inputs",
        )
    stated = tuple((path, about) for path, about in files if about is not None)
    if len(stated) < len(files):
        raise InputError(
            _missing_settings(next(path for path, about in files if about is None)),
            key="profiles.unstated",
        )
    if not any(about.labelled for _, about in stated):
        raise InputError(
            f"{folder}: none of its profile rows has a label "
            f"({', '.join(path.name for path, _ in files)}). Training needs labelled buildings. "
            "Leave the folder out, or put labelled rows beside these.",
            key="profiles.no_labels",
        )
    return ProfileFiles(folder.resolve().name, stated)


def _missing_settings(path: Path) -> str:
    return (
        f"{path}: looks like profile rows (d0,s0,d1,s1,…,span,width), which state no units, codes "
        "or time. Write them into params.yaml:\n"
        "ingest:\n"
        "  products:\n"
        f"    {path.name!r}:\n"
        "      profiles:  # your units, codes and years\n"
        "        {labelled: true, distance_unit: m, slope_unit: mm/m, severity_unit: permille,\n"
        "         quadrants: {1: NE, 2: NW, 3: SW, 4: SE}, years: 2.5}"
    )
