"""Footprints of single houses, on plots of their own: frontage along x from 0, the street at y = 0."""

from __future__ import annotations

from typing import NamedTuple

import shapely
from numpy.random import Generator
from shapely import affinity

SIZES = {
    "terrace": ((8, 12), (10, 14), (7, 12)),
    "row": ((22, 58), (10.5, 15), (7, 15)),
    "villa": ((12, 21), (11, 17), (6, 13)),
    "slab": ((26, 60), (11, 15), (12, 27)),
    "hall": ((26, 50), (18, 28), (6, 11)),
    "L": ((18, 38), (17, 29), (7, 16)),
}
"""Frontage, depth and height, m."""
MIX = (0.5, 2.0, 1.4, 1.6, 0.8, 2.2)
"""How often each is built; parameters of a Dirichlet distribution over districts."""
WITH_BAY = ("villa", "slab")
"""Of these, some have a bay or a stair tower at the street."""


class House(NamedTuple):
    """One building; m."""

    outline: shapely.Polygon
    frontage: float
    depth: float
    height: float

    def move(self, x: float, y: float) -> House:
        """The same elsewhere."""
        return self._replace(outline=affinity.translate(self.outline, x, y))

    def turn(self, degrees: float, origin: str | tuple[float, float] = "center") -> House:
        """The same turned counter-clockwise."""
        return self._replace(outline=affinity.rotate(self.outline, degrees, origin=origin))

    def face_back(self, middle: float) -> House:
        """The same as seen in a mirror along the line y = `middle`."""
        return self._replace(outline=affinity.scale(self.outline, 1, -1, origin=(0, middle)))


def draw_house(generator: Generator, kind: str) -> House:
    """A house of one of the kinds of `SIZES`."""
    width, depth, height = (generator.uniform(*bounds) for bounds in SIZES[kind])
    corners = [(0.0, 0.0), (width, 0.0), (width, depth), (0.0, depth)]
    if kind == "L":
        wing, arm = generator.uniform(7.5, min(11, 0.6 * width)), generator.uniform(8, min(11.5, 0.6 * depth))
        corners = [(0, 0), (width, 0), (width, arm), (wing, arm), (wing, depth), (0, depth)]
        if generator.random() < 0.5:
            corners = [(width - x, y) for x, y in corners]
    elif kind in WITH_BAY and generator.random() < 0.2:
        left = generator.uniform(0.2, 0.5) * width
        right = left + generator.uniform(0.2, 0.3) * width
        out = -generator.uniform(1.0, 2.0)
        corners[1:1] = [(left, 0), (left, out), (right, out), (right, 0)]
    return House(shapely.Polygon(corners), width, depth, height)
