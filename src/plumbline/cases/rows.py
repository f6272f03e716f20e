"""Read the published facts that come with Plumbline: buildings, their levels, and histories by published rates."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

KNOWN = Path(__file__).parent / "known"
NOT_USED = "do not use"


@dataclass(frozen=True)
class Row:
    """A building of `cases.csv`; None and empty texts where the source does not say."""

    name: str
    source: str
    cause: str
    observed_damage: str
    usable_as: str
    label_kind: str
    trough_axis: str
    """Of a trough, assumed: at the `middle` or one `end` of the length."""
    observed_quadrant: str
    length_m: float | None
    width_m: float | None
    height_m: float | None
    max_settlement_mm: float | None
    angular_distortion_permille: float | None
    horizontal_strain_permille: float | None
    rotation_permille: float | None
    """Largest between landmarks: the angular distortion is at most this."""
    tilt_permille: float | None
    trough_m: float | None
    """Distance of a Gaussian trough's inflection from its axis."""
    observed_least: float | None
    observed_most: float | None
    """Category by what was seen."""

    @property
    def is_negative(self) -> bool:
        """Whether the row says that nothing should be found."""
        return "negative" in self.usable_as

    @property
    def is_required(self) -> bool:
        """Whether the row has a profile, or is a negative."""
        return self.is_negative or self.usable_as.startswith("profile")

    def away(self, category: float) -> float:
        """Return how many categories `category` is from those observed; negative: below."""
        if self.observed_least is None or self.observed_most is None:
            return float("nan")
        return min(category - self.observed_least, 0) + max(category - self.observed_most, 0)


@dataclass(frozen=True)
class History:
    """A movement by published rates, of `histories.csv`; settlement is positive."""

    case: str
    situation: str
    seen: str
    """`followed`: the product has the whole movement; `wrapped`: only what its phase can tell; `lost`: no point."""
    trough_m: float | None
    """None: the building moves as a whole."""
    slow_mm_year: float | None
    fast_mm_year: float | None
    fast_years: float | None
    """How long the fast rate has gone on at the end of the record."""
    at_once_mm: float | None

    def settlement(self, years: float) -> float:
        """Return the settlement over a record of `years`, mm."""
        fast = min(self.fast_years or 0.0, years)
        return (self.slow_mm_year or 0) * (years - fast) + (self.fast_mm_year or 0) * fast + (self.at_once_mm or 0)


@dataclass(frozen=True)
class Level:
    """A levelled point of a wall, of `levels.csv`; `house` and `wall` name rows of `cases.csv`."""

    house: str
    wall: str
    x_m: float
    y_m: float
    level_mm: float


Kind = TypeVar("Kind", Row, History, Level)


def _read(kind: type[Kind], file: str) -> list[Kind]:
    with (KNOWN / file).open(encoding="utf-8", newline="") as stream:
        return [parse(kind, row) for row in csv.DictReader(stream)]


def parse(kind: type[Kind], row: dict[str, str]) -> Kind:
    """Return a row of a table as its class; columns that the class does not name are left out.

    Raises:
        ValueError: a number is none, or a column is missing.
    """
    values: dict[str, str | float | None] = {}
    for field in fields(kind):
        if field.name not in row:
            raise ValueError(f"{kind.__name__}: no column {field.name}")
        text = row[field.name].strip()
        values[field.name] = text if field.type == "str" else float(text) if text else None
    return kind(**values)  # type: ignore[arg-type]


@cache
def read_rows() -> list[Row]:
    """Return all buildings."""
    return _read(Row, "cases.csv")


@cache
def read_histories() -> list[History]:
    """Return all histories."""
    return _read(History, "histories.csv")


@cache
def read_levels() -> list[Level]:
    """Return all levelled points."""
    return _read(Level, "levels.csv")


def house_of(row: Row) -> str | None:
    """Return the name of the house that a row is, or is a wall of, if its levels are known."""
    return next((level.house for level in read_levels() if row.name in (level.house, level.wall)), None)


def points_of(name: str) -> NDArray[np.float64]:
    """Return (N, 3) x, y and level of the levelled points of a house or a wall, in the order of the table."""
    found = [level for level in read_levels() if name in (level.house, level.wall)]
    return np.array([(level.x_m, level.y_m, level.level_mm) for level in found], float).reshape(-1, 3)
