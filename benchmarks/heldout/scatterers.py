"""Where a building reflects: its roof, and the facades that face the satellite."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import shapely
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]
ON_FACADE = 0.35
"""Share of scatterers, on average."""


class Scatterers(NamedTuple):
    """P true places on the map, and heights above the ground, m."""

    east_north: Array
    height: Array


def draw_scatterers(
    generator: Generator, polygon: shapely.Polygon, building_height: float, look: Array, count: int
) -> Scatterers:
    """Scatterers of one building for a satellite in the horizontal direction `look` (2,), east and north."""
    facade = int(generator.binomial(count, ON_FACADE))
    wall = _facing(generator, polygon, look, facade)
    roof = _inside(generator, polygon, count - len(wall))
    # Windows and balconies at any height; roofs with superstructures, and the pavement at the foot.
    height = np.concatenate(
        [
            building_height * generator.beta(1.2, 1.2, len(wall)),
            building_height
            * np.where(generator.random(len(roof)) < 0.12, 0.0, generator.uniform(0.85, 1.1, len(roof))),
        ]
    )
    return Scatterers(np.concatenate([wall, roof]), height)


def _facing(generator: Generator, polygon: shapely.Polygon, look: Array, count: int) -> Array:
    """(count, 2) on walls, more of them on long ones and on those square to the look; (0, 2) if none faces it."""
    rings = [polygon.exterior, *polygon.interiors]
    oriented = [shapely.get_coordinates(ring)[:: 1 if ring.is_ccw == (not i) else -1] for i, ring in enumerate(rings)]
    start = np.concatenate([ring[:-1] for ring in oriented])
    edge = np.concatenate([np.diff(ring, axis=0) for ring in oriented])
    weight = np.maximum(edge @ np.array([-look[1], look[0]]), 0)  # the outer normal of (x, y) is (y, -x)
    if count == 0 or weight.sum() < 1e-9:
        return np.empty((0, 2))
    chosen = generator.choice(len(edge), count, p=weight / weight.sum())
    return np.asarray(start[chosen] + generator.random((count, 1)) * edge[chosen])


def _inside(generator: Generator, polygon: shapely.Polygon, count: int) -> Array:
    """(count, 2) evenly over the footprint."""
    west, south, east, north = polygon.bounds
    found = np.empty((0, 2))
    while len(found) < count:
        trial = generator.uniform((west, south), (east, north), (4 * count + 8, 2))
        found = np.concatenate([found, trial[shapely.contains_xy(polygon, trial)]])
    return np.asarray(found[:count])
