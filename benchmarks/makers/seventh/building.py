"""A house: a rectangle, or one that lacks a corner, and its own axes: x nearest to east, y nearest to north."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.seventh.settings import Array, log_uniform

Signs = tuple[int, int]
"""Of x and y in a quadrant."""
LENGTH_M = (10.0, 60.0)
LEAST_WIDTH_M = 6.0
SLENDEREST = 3.5
"""Length to width."""
L_SHAPED = 0.2
NOTCH = (0.25, 0.5)
"""Of a side."""
EDGE_M = 1e-9


@dataclass(frozen=True)
class Notch:
    """The corner that an L-shaped house lacks."""

    sign: Signs
    size: tuple[float, float]
    """Along x and y, m."""


@dataclass(frozen=True)
class Building:
    """One house on the map (EPSG:3035)."""

    centre: Array
    """(2,) easting and northing of the rectangle's centre, m."""
    angle: float
    """Of the x axis, rad counter-clockwise from east, at most 45 degrees."""
    half: tuple[float, float]
    """Half sides along x and y, m."""
    notch: Notch | None

    @property
    def axes(self) -> Array:
        """(2, 2) rows: the unit vectors of x and y, east and north."""
        cos, sin = np.cos(self.angle), np.sin(self.angle)
        return np.array([[cos, sin], [-sin, cos]])

    def holds(self, x: Array, y: Array) -> NDArray[np.bool_]:
        """(N,) whether positions in own axes, m, are on the house, its outline included."""
        a, b = self.half
        inside = (np.abs(x) <= a + EDGE_M) & (np.abs(y) <= b + EDGE_M)
        if self.notch:
            (sign_x, sign_y), (wide, deep) = self.notch.sign, self.notch.size
            inside &= ~((sign_x * x > a - wide + EDGE_M) & (sign_y * y > b - deep + EDGE_M))
        return np.asarray(inside)

    def on_map(self, x: Array, y: Array) -> Array:
        """(N, 2) easting and northing of positions in own axes, m."""
        along, across = self.axes
        return np.asarray(self.centre + np.multiply.outer(x, along) + np.multiply.outer(y, across))

    def outline(self) -> shapely.Polygon:
        """The footprint on the map, corners counter-clockwise."""
        a, b = self.half
        corners = [(-a, -b), (a, -b), (a, b), (-a, b)]
        if self.notch:
            (sign_x, sign_y), (wide, deep) = self.notch.sign, self.notch.size
            x, y = sign_x * a, sign_y * b
            inner_x, inner_y = sign_x * (a - wide), sign_y * (b - deep)
            cut = [(x, inner_y), (inner_x, inner_y), (inner_x, y)]
            place = corners.index((x, y))
            corners[place : place + 1] = cut if sign_x * sign_y > 0 else cut[::-1]
        return shapely.Polygon(self.on_map(*np.array(corners).T))

    def cells(self, largest_m: float) -> tuple[Array, Array]:
        """x and y (C,) of the middles of equal cells of the house: equal weights are weights by area."""
        edges = [np.linspace(-half, half, 2 * int(np.ceil(half / largest_m)) + 1) for half in self.half]
        x, y = np.meshgrid(*[(edge[1:] + edge[:-1]) / 2 for edge in edges])
        inside = self.holds(x, y)
        return x[inside], y[inside]


def compass_of(polygon: shapely.Polygon) -> tuple[Array, float, tuple[float, float]]:
    """Centre, angle and half sides, as of `Building`, by the smallest rectangle around a polygon."""
    corners = shapely.get_coordinates(polygon.minimum_rotated_rectangle)[:4]
    first, second = corners[1] - corners[0], corners[2] - corners[1]
    angle, quarter = np.arctan2(first[1], first[0]), np.pi / 2
    turns = np.ceil((angle - np.pi / 4) / quarter - 1e-9)
    half = np.hypot(*first) / 2, np.hypot(*second) / 2
    return corners.mean(0), float(angle - turns * quarter), half if int(turns) % 2 == 0 else half[::-1]


def is_read_alike(building: Building, outline: shapely.Polygon) -> bool:
    """Whether whoever reads only the outline finds the axes that the house was made in."""
    centre, angle, half = compass_of(outline)
    turned = abs(np.angle(np.exp(1j * (angle - building.angle))))
    sides = abs(half[0] - building.half[0]) + abs(half[1] - building.half[1])
    return bool(np.hypot(*(centre - building.centre)) <= 0.01 and turned <= 1e-3 and sides <= 0.01)


def draw_building(generator: Generator, plot: Array, street: float) -> tuple[Building, Signs]:
    """A house on a plot at (2,), m, nearly along a street, rad; and the quadrant that fails if one does."""
    length = log_uniform(generator, *LENGTH_M)
    width = max(LEAST_WIDTH_M, length / generator.uniform(1, SLENDEREST))
    a, b = (length / 2, width / 2) if generator.random() < 0.5 else (width / 2, length / 2)
    angle = street + np.radians(generator.normal(0, 3))
    angle = (angle + np.pi / 4) % (np.pi / 2) - np.pi / 4
    centre = plot + generator.uniform(-4, 4, 2)
    failing = _draw_signs(generator)
    notch = None
    if generator.random() < L_SHAPED:
        lacking = failing
        while lacking == failing:  # a corner that is not there cannot fail
            lacking = _draw_signs(generator)
        notch = Notch(lacking, (2 * a * generator.uniform(*NOTCH), 2 * b * generator.uniform(*NOTCH)))
    return Building(centre, angle, (a, b), notch), failing


def _draw_signs(generator: Generator) -> Signs:
    x, y = generator.choice([-1, 1], 2).tolist()
    return x, y
