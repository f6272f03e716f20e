"""Where buildings stand: districts with a direction of their own, of blocks that have houses along two streets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import shapely
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.eighth.houses import MIX, SIZES, House, draw_house

Array = NDArray[np.float64]
MIDDLE = (4_318_400.0, 2_990_300.0)
"""EPSG:3035, about."""
DISTRICT_M, APART = 420.0, 1.45
"""Side of a district, and how far apart two are in such sides."""
IN_A_ROW = 8
LEAST_M = 60.0
"""No block begins closer to the end of a district."""
CROOKED_DEGREES = 4
"""At most so far villas and halls are turned from the street."""
BUILT = 0.93
"""Share of plots that are not left empty."""


class Street(NamedTuple):
    """A straight street through a district."""

    centre: Array
    """(2,) of the district, m."""
    angle: float
    """rad counter-clockwise from east."""
    across: float
    """How far to the left of the centre it passes, m."""


class Town(NamedTuple):
    """B buildings in EPSG:3035."""

    middle: Array
    """(2,) m."""
    footprint: list[shapely.Polygon]
    height: Array
    """(B,) m."""
    streets: list[Street]


def draw_town(generator: Generator, buildings: int) -> Town:
    """Draw a town of so many buildings."""
    houses: list[House] = []
    streets: list[Street] = []
    district = 0
    while len(houses) < buildings:
        row, column = divmod(district, IN_A_ROW)
        centre = np.array([column * DISTRICT_M * APART, row * DISTRICT_M * APART])
        turn = generator.uniform(-90, 90)
        built, across = _district(generator)
        houses += [house.turn(turn, (0, 0)).move(*centre) for house in built]
        streets += [Street(centre, np.radians(turn), one) for one in across]
        district += 1
    middle = np.array(MIDDLE) + generator.uniform(-2e3, 2e3, 2)
    houses = [house.move(*middle) for house in houses[:buildings]]
    return Town(
        middle,
        [house.outline for house in houses],
        np.array([house.height for house in houses]),
        [street._replace(centre=street.centre + middle) for street in streets],
    )


def _district(generator: Generator) -> tuple[list[House], list[float]]:
    """Houses about the district's centre, and the y of its streets, which run along x."""
    mix = generator.dirichlet(MIX)
    houses: list[House] = []
    streets = []
    y = -DISTRICT_M / 2
    while y < DISTRICT_M / 2 - LEAST_M:
        depth, street = generator.uniform(58, 76), generator.uniform(10, 18)
        streets.append(y - street / 2)
        x = -DISTRICT_M / 2
        while x < DISTRICT_M / 2 - LEAST_M:
            width = min(generator.uniform(70, 130), DISTRICT_M / 2 - x)
            houses += _block(generator, mix, (x, y), width, depth)
            x += width + generator.uniform(9, 15)
        y += depth + street
    return houses, streets


def _block(generator: Generator, mix: Array, corner: tuple[float, float], width: float, depth: float) -> list[House]:
    """Houses from a corner (x, y) on, along the two streets of a block, at y and at y + `depth`."""
    left, front = corner
    kinds = list(SIZES)
    houses = []
    kind = generator.choice(kinds, p=mix)
    for beyond in (False, True):
        if generator.random() < 0.25:
            kind = generator.choice(kinds, p=mix)
        x = left
        while x + (house := draw_house(generator, kind)).frontage <= left + width:
            wall_to_wall = kind == "terrace" and generator.random() < 0.8
            gap = 0.0 if wall_to_wall else generator.uniform(2.5, 9)
            set_back = 0.0 if kind in ("terrace", "row") else generator.uniform(0, 3)
            if house.depth + set_back > depth / 2 - 1:
                set_back = max(0.0, depth / 2 - 1 - house.depth)
            placed = house.move(x, set_back)
            if beyond:
                placed = placed.face_back(depth / 2)
            placed = placed.move(0, front)
            if kind in ("villa", "hall"):
                placed = placed.turn(generator.uniform(-CROOKED_DEGREES, CROOKED_DEGREES))
            if house.depth <= depth / 2 and generator.random() < BUILT:
                houses.append(placed)
            x += house.frontage + gap
    return houses
