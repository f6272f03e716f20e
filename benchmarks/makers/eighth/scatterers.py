"""Where radar sees a building: at the foot and on the facades that face the satellite, on edges of roofs, on roofs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import shapely
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]
SHARES = (0.22, 0.25, 0.33, 0.2)
"""Of feet of walls, facades, edges of roofs, and roofs."""
FOOT, FACADE, ROOF = 0, 1, 3
SEEN = 0.12
"""Least cosine between a wall's normal and the look at which it is seen."""
AT_CORNER = 0.25
"""Share of scatterers at the ends of walls."""
FLOOR_M = 3.0
LAYOVER = 1.3
"""How far a metre of height brings a scatterer towards the satellite, m."""


class Scatterers(NamedTuple):
    """P true places on the map, and heights above the ground, m."""

    east_north: Array
    height: Array


def draw_scatterers(
    generator: Generator, polygon: shapely.Polygon, top: float, look: Array, count: int, cell_m: tuple[float, float]
) -> Scatterers:
    """So many scatterers of one building, at most one in a resolution cell while there are cells.

    Args:
        generator: of everything drawn. polygon: the footprint. top: the building's height, m.
        look: (2,) unit vector towards the satellite, east and north.
        count: of scatterers. cell_m: see `Sensor`.
    """
    trials = 5 * count + 20
    kind = generator.choice(len(SHARES), trials, p=SHARES)
    east_north = _on_walls(generator, polygon, look, kind <= FACADE)
    height = _heights(generator, top, kind)
    inside = _inside(generator, polygon, 6 * trials)
    on_roof = np.flatnonzero(kind == ROOF)[: len(inside)]
    east_north[on_roof] = inside[: len(on_roof)]
    height[on_roof] = top + generator.uniform(-1, 2, len(on_roof))
    chosen = _resolved(east_north, height, look, cell_m)
    if len(chosen) < count:
        others = np.setdiff1d(np.arange(trials), chosen)
        chosen = np.concatenate([chosen, others[: count - len(chosen)]])
    return Scatterers(east_north[chosen[:count]], height[chosen[:count]])


def _on_walls(generator: Generator, polygon: shapely.Polygon, look: Array, low: NDArray[np.bool_]) -> Array:
    """(T, 2) close behind the outline: those of `low` (T,) on walls that face the satellite, others on all edges."""
    trials = len(low)
    corner = shapely.get_coordinates(shapely.geometry.polygon.orient(polygon))
    edge = np.diff(corner, axis=0)
    length = np.hypot(edge[:, 0], edge[:, 1])
    normal = np.column_stack([edge[:, 1], -edge[:, 0]]) / length[:, None]
    facing = normal @ look
    of_wall = length * np.clip(facing, 0, None) ** 0.7 * (facing > SEEN)
    of_roof = length * (0.35 + np.clip(facing, 0, 1))
    on_wall = generator.choice(len(edge), trials, p=of_wall / of_wall.sum())
    on_roof = generator.choice(len(edge), trials, p=of_roof / of_roof.sum())
    chosen = np.where(low, on_wall, on_roof)
    share = generator.random(trials)
    at_corner = generator.random(trials) < AT_CORNER
    share = np.where(at_corner, generator.choice([0.02, 0.98], trials), share)
    behind = generator.uniform(0, 0.25, trials)
    return np.asarray(corner[chosen] + share[:, None] * edge[chosen] - normal[chosen] * behind[:, None])


def _heights(generator: Generator, top: float, kind: NDArray[np.intp]) -> Array:
    """(T,) m: feet at the ground, facades at sills and lintels of the floors, the others at the top."""
    floors = max(1, round(top / FLOOR_M))
    floor = generator.integers(0, 99, len(kind)) % floors
    window = np.minimum(top - 0.5, floor * FLOOR_M + generator.choice([1.0, 2.4], len(kind)))
    return np.select([kind == FOOT, kind == FACADE], [0.3, window], top)


def _inside(generator: Generator, polygon: shapely.Polygon, trials: int) -> Array:
    """(N, 2) evenly over the footprint: those of so many trials that fall on it."""
    west, south, east, north = polygon.bounds
    trial = np.column_stack([generator.uniform(west, east, trials), generator.uniform(south, north, trials)])
    return np.asarray(trial[shapely.contains_xy(polygon, trial)])


def _resolved(east_north: Array, height: Array, look: Array, cell_m: tuple[float, float]) -> NDArray[np.intp]:
    """Ascending indices of the first scatterer of each resolution cell."""
    along = east_north @ np.array([-look[1], look[0]])
    across = east_north @ look + height * LAYOVER
    cell = np.floor(np.column_stack([along, across]) / cell_m)
    return np.sort(np.unique(cell, axis=0, return_index=True)[1])
