"""Lay out a town: rectangles and some L shapes in rows, streets between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from benchmarks.makers.ninth.settings import ORIGIN, Array, log_uniform

LONG_M, SHORT_M = (12.0, 40.0), (8.0, 22.0)
L_SHAPED, NOTCH = 0.15, (0.25, 0.45)
"""Share of buildings with a corner missing, and sides of that corner as shares of the building's."""
MOST_TURNED_DEG = 44.5
"""At 45 the two axes change names."""
CROOKED_DEG = 6.0
"""Standard deviation of the directions of buildings in a row."""
BETWEEN_M, STREET_M = (3.0, 14.0), (9.0, 18.0)
"""Gaps between neighbours in a row, and between rows."""


@dataclass(frozen=True)
class Building:
    """One footprint. Its own axes x and y run from the centre, x turned by at most 45 degrees from east."""

    centre: Array
    """(2,) easting and northing, m."""
    angle: float
    """Of the x axis, rad counter-clockwise from east."""
    half: Array
    """(2,) half sides along x and y, m."""
    notch: Array
    """(2,) sides of the missing corner, m; zeros: a rectangle."""
    corner: Array
    """(2,) signs of x and y of that corner."""
    height: float
    """m above the ground."""

    @property
    def axes(self) -> Array:
        """Return (2, 2) rows: unit vectors of x and y on the map."""
        cos, sin = np.cos(self.angle), np.sin(self.angle)
        return np.array([[cos, sin], [-sin, cos]])

    @property
    def centroid(self) -> Array:
        """Return the own position (2,) of the footprint's centre of area."""
        share = self.notch.prod() / (4 * self.half.prod())
        return np.asarray(-share / (1 - share) * self.corner * (self.half - self.notch / 2))

    def on_map(self, xy: Array) -> Array:
        """Turn own positions (N, 2) into eastings and northings."""
        return np.asarray(xy @ self.axes + self.centre)

    def holds(self, xy: Array) -> Array:
        """Say which of own positions (N, 2) lie on the footprint, its edge included."""
        inside = (np.abs(xy) <= self.half + 1e-9).all(-1)
        beyond = xy * self.corner - (self.half - self.notch)
        return np.asarray(inside & ~(beyond > 1e-9).all(-1))

    def outline(self) -> Array:
        """Return own positions (K, 2) of the vertices, counter-clockwise, the first one again at the end."""
        around = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
        vertices = []
        for signs in around:
            end = signs * self.half
            if self.notch.any() and (signs == self.corner).all():
                along_x, along_y = end - signs * self.notch * [1, 0], end - signs * self.notch * [0, 1]
                first, last = (along_y, along_x) if signs.prod() > 0 else (along_x, along_y)
                vertices += [first, end - signs * self.notch, last]
            else:
                vertices.append(end)
        return np.array([*vertices, vertices[0]])


def draw_town(generator: Generator, count: int) -> list[Building]:
    """Draw the buildings of a town."""
    long = log_uniform(generator, LONG_M, count)
    short = log_uniform(generator, SHORT_M, count)
    short = np.where(short < long, short, generator.uniform(SHORT_M[0], long))
    side = np.where(generator.random(count)[:, None] < 0.5, np.stack([long, short], 1), np.stack([short, long], 1))
    notched = generator.random(count) < L_SHAPED
    notch = side * generator.uniform(*NOTCH, (count, 2)) * notched[:, None]
    corner = generator.choice([-1.0, 1.0], (count, 2))
    height = np.clip(log_uniform(generator, (4.0, 16.0), count) * (side.min(1) / 12) ** 0.5, 3.5, 30.0)
    per_row = max(1, round(np.sqrt(count)))
    row = np.arange(count) // per_row
    street = generator.uniform(-MOST_TURNED_DEG, MOST_TURNED_DEG, row[-1] + 1)[row]
    turned = street + generator.normal(0, CROOKED_DEG, count)
    turned = (turned + 45) % 90 - 45  # a building is the same after a quarter turn of its axes
    angle = np.radians(np.clip(turned, -MOST_TURNED_DEG, MOST_TURNED_DEG))
    centre = _in_rows(generator, side, angle, row)
    return [
        Building(centre[one], float(angle[one]), side[one] / 2, notch[one], corner[one], float(height[one]))
        for one in range(count)
    ]


def _in_rows(generator: Generator, side: Array, angle: Array, row: Array) -> Array:
    """Place buildings (B, 2) so that boxes about them on the map keep their distances."""
    cos, sin = np.abs(np.cos(angle)), np.abs(np.sin(angle))
    box = np.stack([side[:, 0] * cos + side[:, 1] * sin, side[:, 0] * sin + side[:, 1] * cos], 1)
    centre = np.empty_like(box)
    south = ORIGIN[1]
    for number in range(int(row[-1]) + 1):
        here = np.flatnonzero(row == number)
        width = box[here, 0] + generator.uniform(*BETWEEN_M, len(here))
        depth = box[here, 1].max()
        centre[here, 0] = ORIGIN[0] + np.cumsum(width) - width + box[here, 0] / 2
        centre[here, 1] = south + box[here, 1] / 2 + generator.uniform(0, 1, len(here)) * (depth - box[here, 1])
        south += depth + generator.uniform(*STREET_M)
    return centre
