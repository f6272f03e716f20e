"""Place scatterers: on edges of roofs, on roofs, and on the walls that face the satellite."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.ninth.settings import Array, Band
from benchmarks.makers.ninth.structure import CAUSES, Structure

ON_EDGES, ON_ROOF = 0.35, 0.3
"""Shares; the others are on walls."""
BEHIND_M = 0.3
"""Most distance of scatterers of edges and walls from the outline."""
SPREAD = 0.35
"""Standard deviation of the logarithm of the number on a building, beside what its size does."""
NORMALS = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])


@dataclass(frozen=True)
class Scatterers:
    """P scatterers that one track sees, ordered by building."""

    owner: NDArray[np.intp]
    """(P,) number of the building."""
    east_north: Array
    """(P, 2) m."""
    height: Array
    """(P,) above the ground, m."""
    causes: Array
    """(P, CAUSES, 3), see `Structure.causes`."""
    summer: Array
    """(P, 3), see `Structure.summer`."""


def draw_counts(generator: Generator, band: Band, structures: list[Structure]) -> NDArray[np.int64]:
    """Draw how many scatterers (B, 2) two tracks see of each building: more of large and high ones."""
    size = np.array([one.building.half.sum() * (one.building.height + 6) for one in structures])
    wanted = size**0.5 * np.exp(generator.normal(0, SPREAD, len(size)))
    low, high = band.points_range
    factor = band.points / wanted.mean()
    for _ in range(20):  # bounds move the mean
        factor *= band.points / np.clip(wanted * factor, low, high).mean()
    total = np.clip(np.round(wanted * factor), low, high).astype(int)
    first = generator.binomial(total, np.clip(generator.normal(0.5, 0.1, len(total)), 0.25, 0.75))
    first = np.clip(first, 1, total - 1)
    return np.column_stack([first, total - first])


def draw_scatterers(
    generator: Generator, structures: list[Structure], counts: NDArray[np.int64], towards: Array
) -> Scatterers:
    """Draw the scatterers of one track.

    Args:
        generator: of everything drawn.
        structures: the town.
        counts: (B,) of each building.
        towards: (2,) unit vector to the satellite, east and north.
    """
    places, heights, causes, summers = [], [], [], []
    for structure, count in zip(structures, counts, strict=True):
        xy, height = _draw_places(generator, structure, int(count), structure.building.axes @ towards)
        places.append(structure.building.on_map(xy))
        heights.append(height)
        causes.append(structure.causes(xy, height))
        summers.append(structure.summer(xy, height))
    return Scatterers(
        np.repeat(np.arange(len(counts)), counts),
        np.concatenate(places),
        np.concatenate(heights),
        np.concatenate(causes).reshape(-1, CAUSES, 3),
        np.concatenate(summers),
    )


def _draw_places(generator: Generator, structure: Structure, count: int, towards: Array) -> tuple[Array, Array]:
    """Draw own positions (N, 2) and heights (N,), m; `towards` (2,) is along the building's own axes."""
    building = structure.building
    half = building.half
    xy = generator.uniform(-1, 1, (count, 2)) * half
    height = building.height + generator.uniform(-0.5, 1.5, count)
    kind = generator.random(count)
    wall, edge = kind > ON_EDGES + ON_ROOF, kind < ON_EDGES
    length = np.array([half[1], half[0], half[1], half[0]])
    facing = np.clip(NORMALS @ towards, 0, None)
    # Roof edges are seen on all sides, walls on those towards the satellite.
    on_edge = generator.choice(4, count, p=length / length.sum())
    on_wall = generator.choice(4, count, p=length * facing / (length * facing).sum())
    side = np.where(wall, on_wall, on_edge)
    axis, rows = side % 2, np.flatnonzero(wall | edge)
    outer = np.where(side < 2, 1.0, -1.0) * (half[axis] - generator.uniform(0, BEHIND_M, count))
    xy[rows, axis[rows]] = outer[rows]
    height = np.where(wall, generator.uniform(0.3, building.height, count), height)
    # Where a corner is missing, walls stand back, and what would be on the roof is on the other side.
    missing = ~building.holds(xy)
    back = missing & (wall | edge)
    rows = np.flatnonzero(back)
    xy[rows, axis[rows]] -= (building.corner * building.notch)[axis[rows]]
    roof = missing & ~back
    xy[roof] = -xy[roof]
    return xy, height
