"""One line of profile rows, `d0,s0,d1,s1,…,span,width[,severity,location]`: its cells, and what keeps them from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

MAX_LOCATION = 4
"""Codes of four quadrants, counted from 0 or from 1."""
MAX_SLOPE_MM_PER_M = 1000.0
"""45 degrees: beyond it the unit is another one."""
MAX_LENGTH_M = 1e5
"""No building is longer, and no distance along one."""
TO_MM_PER_M = {"mm/m": 1.0, "m/m": 1000.0}
TO_M = {"m": 1.0, "cm": 0.01, "mm": 0.001}
SLACK = 1e-6
"""Of the span, for rounded distances."""
SlopeUnit = Literal["mm/m", "m/m"]
DistanceUnit = Literal["m", "cm", "mm"]
Problem = tuple[str, int | None]
"""What was found, and the cell, from 1."""


@dataclass(frozen=True)
class Form:
    """What has to be said of the lines of a file."""

    labelled: bool
    """Whether each ends with `severity,location`."""
    slope_unit: SlopeUnit = "mm/m"
    distance_unit: DistanceUnit = "m"
    """Of distances, span and width."""

    @property
    def tail(self) -> int:
        """Cells after the pairs."""
        return 4 if self.labelled else 2

    def __str__(self) -> str:
        return "d0,s0,d1,s1,…,span,width" + (",severity,location" if self.labelled else "")


def parse_line(line: bytes, form: Form, first: bool) -> NDArray[np.float64] | Problem:
    """The numbers of a line, in the file's units; or why it is none. Empty cells at its end are no part of it.

    Args:
        line: of any length, with or without its line break.
        form: what the caller says of it.
        first: whether it begins the file, where a byte order mark may stand.
    """
    cells = line.decode("utf-8-sig" if first else "utf-8", "backslashreplace").rstrip(" \t\r\n,").split(",")
    if len(cells) < form.tail + 2 or len(cells) % 2:
        return f"{len(cells)} cells found, an even number from {form.tail + 2} up is needed ({form})", None
    values = np.array([_number(cell) for cell in cells])
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        return f"{cells[bad[0]].strip()[:60]!r} found, a number is needed", int(bad[0]) + 1
    problem = _problem(values, form)
    if problem is not None:
        return problem
    padded = line.rstrip(b" \t\r\n").endswith(b",")
    if form.labelled and padded and len(cells) >= 4 and _problem(values, replace(form, labelled=False)) is None:
        found = "empty cells found at the end, and the others can be a row with labels as well as one without"
        return f"{found}; remove empty cells, and give rows without labels a file of their own", None
    return values


def _number(cell: str) -> float:
    """NaN for what is none."""
    try:
        return float(cell.replace("_", "?"))
    except ValueError:
        return math.nan


def _problem(values: NDArray[np.float64], form: Form) -> Problem | None:
    """What keeps an even number of finite values from being a row."""
    count, unit = len(values), form.distance_unit
    pairs = count - form.tail
    distance, slope, (span, width) = values[:pairs:2], values[1:pairs:2], values[pairs : pairs + 2]
    back = np.flatnonzero(np.diff(distance) < 0)
    if len(back):
        one, two = distance[back[0] : back[0] + 2]
        return f"distance {two:g} {unit} after {one:g} {unit} found, distances ascend", 2 * int(back[0]) + 3
    for name, value, place in (("span", span, pairs + 1), ("width", width, pairs + 2)):
        if value <= 0:
            return f"{name} of {value:g} {unit} found, a positive one is needed", place
    if distance[-1] - distance[0] > span * (1 + SLACK):
        advice = "lack labels" if form.labelled else "have labels at the ends of its lines"
        found = f"distances over {distance[-1] - distance[0]:g} {unit} found, the span is {span:g} {unit}"
        return f"{found}; does the file {advice}, or not as was said", pairs + 1
    too_large = _too_large(np.r_[distance, span, width], MAX_LENGTH_M / TO_M[unit], "length", unit)
    too_steep = _too_large(slope, MAX_SLOPE_MM_PER_M / TO_MM_PER_M[form.slope_unit], "slope", form.slope_unit)
    if too_large is not None:
        return too_large[0], min(2 * too_large[1], pairs + too_large[1] - len(distance)) + 1
    if too_steep is not None:
        return too_steep[0], 2 * too_steep[1] + 2
    if form.labelled:
        severity, location = values[-2:]
        if severity < 0:
            return f"severity {severity:g} found, 0 or more is needed", count - 1
        if location != np.floor(location) or not 0 <= location <= MAX_LOCATION:
            return f"location {location:g} found, a code from 0 to {MAX_LOCATION} is needed", count
    return None


def _too_large(size: NDArray[np.float64], most: float, name: str, unit: str) -> tuple[str, int] | None:
    """What the first value beyond `most` is, and where it stands."""
    large = np.flatnonzero(np.abs(size) > most)
    if not len(large):
        return None
    return f"{name} of {size[large[0]]:g} {unit} found, at most {most:g} is possible; check the unit", int(large[0])
