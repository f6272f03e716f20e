"""Read published buildings, turn their figures into the surface of the foundation, and label it by the definition.

Lengths in m, displacements in mm, up positive, in the building's frame: x along the length, from the middle of its
rectangle.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator

from plumbline.core.compass import frames
from plumbline.core.strain import bay_length
from plumbline.simulate.structure.labels import Strains, strains
from plumbline.simulate.structure.layout import own_outlines, tilts_over

Array = NDArray[np.float64]
Up = Callable[[Array, Array], Array]
"""(x, y), each (N,) -> vertical displacement (N,)."""
KNOWN = Path(__file__).parent / "known"
LENGTH_M, WIDTH_M, HEIGHT_M = 30.0, 10.0, 12.0
"""Assumed where a source does not say."""
STEEPEST = float(np.exp(-0.5))
"""Slope of a Gaussian trough where it is steepest, in its depth over its inflection's distance."""
CELLS = 60
"""Along each side of the rectangle, for the plane through a surface."""


@dataclass(frozen=True)
class Row:
    """A building of `cases.csv`; None and empty texts where the source does not say."""

    name: str
    source: str
    cause: str
    usable_as: str
    trough_axis: str
    """Of a trough, assumed: at the `middle` or one `end` of the length."""
    length_m: float | None
    width_m: float | None
    height_m: float | None
    max_settlement_mm: float | None
    angular_distortion_permille: float | None
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


@dataclass(frozen=True)
class Level:
    """A levelled point of a wall, of `levels.csv`; `house` and `wall` name rows of `cases.csv`."""

    house: str
    wall: str
    x_m: float
    y_m: float
    level_mm: float


Kind = TypeVar("Kind", Row, Level)


def _read(kind: type[Kind], file: str) -> list[Kind]:
    """Return the rows of a table as their class; columns that it does not name are left out."""
    with (KNOWN / file).open(encoding="utf-8", newline="") as stream:
        return [
            kind(**{f.name: _parse(str(f.type), row[f.name]) for f in fields(kind)}) for row in csv.DictReader(stream)
        ]


def _parse(kind: str, text: str) -> Any:
    if kind == "str":
        return text.strip()
    return float(text) if text.strip() else None


@cache
def read_rows() -> list[Row]:
    """Return all buildings."""
    return _read(Row, "cases.csv")


@cache
def read_levels() -> list[Level]:
    """Return all levelled points."""
    return _read(Level, "levels.csv")


def house_of(row: Row) -> str | None:
    """Return the name of the house that a row is, or is a wall of, if its levels are known."""
    return next((point.house for point in read_levels() if row.name in (point.house, point.wall)), None)


def points_of(name: str) -> NDArray[np.float64]:
    """Return (N, 3) x, y and level of the levelled points of a house or a wall, in the order of the table."""
    found = [level for level in read_levels() if name in (level.house, level.wall)]
    return np.array([(level.x_m, level.y_m, level.level_mm) for level in found], float).reshape(-1, 3)


class Surface(NamedTuple):
    """A building and what its foundation has done."""

    outline: shapely.Polygon
    """The middle of its rectangle at 0, 0; its sides along x and y."""
    height_m: float
    up: Up

    def tilt(self) -> Array:
        """Return (2,) the slopes along x and y of the plane through the surface, mm/m."""
        low_x, low_y, high_x, high_y = self.outline.bounds
        shares = (np.arange(CELLS) + 0.5) / CELLS
        x, y = (
            part.ravel() for part in np.meshgrid(low_x + shares * (high_x - low_x), low_y + shares * (high_y - low_y))
        )
        within = shapely.contains_xy(self.outline, x, y)
        at = np.stack([x[within], y[within]])
        return np.asarray(tilts_over(self.up(*at), np.zeros(at.shape[1], np.intp), at, 1)[0], float)

    def upright(self) -> Surface:
        """Return the same without the plane through it, but for its height."""
        tilt = self.tilt()
        return self._replace(up=lambda x, y: np.asarray(self.up(x, y) - tilt[0] * x - tilt[1] * y, float))


def surface_of(row: Row) -> Surface | None:
    """Return the surface of a building; None where too little is published.

    A wall with levels is judged with its house, which has the surface.
    """
    if row.usable_as == "do not use":
        return None
    if house_of(row) == row.name:
        return _of_levels(row)
    if row.tilt_permille is not None:
        slope = row.tilt_permille
        return _block(row, lambda x, y: slope * x)
    depth, steepest = row.max_settlement_mm, row.rotation_permille or row.angular_distortion_permille
    if depth is None or not row.trough_axis:
        return None
    if row.trough_m is not None:
        return _block(row, trough(depth, row.trough_m, _axis(row)))
    if steepest is None:
        return None
    width = STEEPEST * depth / steepest
    return _block(row, trough(depth, width, _axis(row)))


def trough(depth: float, width: float, axis: float) -> Up:
    """Return a Gaussian trough (Peck 1969) `depth` mm deep along the line x = `axis`; inflection `width` m from it."""
    return lambda x, y: np.asarray(-depth * np.exp(-0.5 * ((x - axis) / width) ** 2), float)


def _axis(row: Row) -> float:
    return 0.0 if row.trough_axis == "middle" else -(row.length_m or LENGTH_M) / 2


def _block(row: Row, up: Up) -> Surface:
    length, width, height = row.length_m or LENGTH_M, row.width_m or WIDTH_M, row.height_m or HEIGHT_M
    return Surface(shapely.box(-length / 2, -width / 2, length / 2, width / 2), height, up)


def _of_levels(row: Row) -> Surface:
    """Return a house by its levels: linear between them, over triangles."""
    x, y, level = np.unique(points_of(row.name), axis=0).T
    walls = dict.fromkeys(one.wall for one in read_levels() if one.house == row.name)
    (outline,) = shapely.polygonize([shapely.LineString(points_of(wall)[:, :2]) for wall in walls]).geoms
    middle = np.array([(x.min() + x.max()) / 2, (y.min() + y.max()) / 2])
    at = np.stack([x, y], axis=1) - middle
    within, beyond = LinearNDInterpolator(at, level), NearestNDInterpolator(at, level)

    def up(x: Array, y: Array) -> Array:
        found = within(x, y)
        return np.asarray(np.where(np.isnan(found), beyond(x, y), found), float)

    outline = shapely.transform(outline, lambda corner: corner - middle)
    return Surface(outline, row.height_m or HEIGHT_M, up)


def label(surfaces: Sequence[Surface]) -> Strains:
    """Label surfaces (K,) by the definition of severity, without radar."""
    polygon = np.array([surface.outline for surface in surfaces], object)
    frame = frames(polygon)

    def fields(building: NDArray[np.intp], x: Array, y: Array) -> tuple[Array, Array, Array]:
        up = np.zeros_like(x)
        for number in np.unique(building):
            at = building == number
            up[at] = surfaces[number].up(x[at], y[at])
        return up, np.zeros_like(x), np.zeros_like(x)

    return strains(fields, frame.side, outline=own_outlines(polygon, frame))


def wall_severity(row: Row, house: str) -> float:
    """Return the largest strain of a bay along a wall, permille, from levels alone.

    The plane through all levels of the house is taken off, since between them nothing is known.
    """
    every, points = np.unique(points_of(house), axis=0), points_of(row.name)
    plane = np.linalg.lstsq(np.column_stack([every[:, :2], np.ones(len(every))]), every[:, 2], rcond=None)[0]
    axis = int(np.ptp(points[:, 1]) > np.ptp(points[:, 0]))
    place, level = points[np.argsort(points[:, axis])][:, [axis, 2]].T
    bay = min(bay_length(float(np.ptp(every[:, axis]))), float(np.ptp(place)))
    start = np.linspace(place[0], place[-1] - bay, 200)
    slope = (np.interp(start + bay, place, level) - np.interp(start, place, level)) / bay
    return float(np.abs(slope - plane[axis]).max() / 2)
