"""Where scatterers are: how many on each house and track, on its roof and on the walls that the satellite sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.seventh.settings import Array, Kind
from benchmarks.makers.seventh.structure import Structure
from benchmarks.makers.seventh.town import Town
from benchmarks.makers.seventh.tracks import Track

ON_WALLS = 0.3
OUTLIERS, OUTLIER_MM = 0.02, 30.0
"""Share of scatterers that move by something else, and the standard deviation of that movement."""


@dataclass(frozen=True)
class Scatterers:
    """P scatterers of all tracks, ordered by house."""

    owner: NDArray[np.int64]
    """(P,) number of the house."""
    track: NDArray[np.int64]
    """(P,) number of the track."""
    east_north: Array
    """(P, 2) m."""
    height: Array
    """(P,) above the sea, m."""
    movement: Array
    """(P, CAUSES + 1, 3) m; see `Structure.movement`."""
    strays_mm: Array
    """(P,) towards the satellite at the last epoch, beside what the house does; 0 for most."""


def draw_counts(generator: Generator, kind: Kind, area: Array) -> NDArray[np.int64]:
    """(B,) scatterers of houses of areas (B,); larger houses tend to have more."""
    (low, high), middle, spread = kind.scatterers, kind.scatterers_middle, kind.scatterers_spread
    count = np.empty(0)
    while len(count) < len(area):
        if kind.band == "X":
            more = middle * np.exp(generator.normal(0, spread, 2 * len(area)))
        else:
            more = generator.normal(middle, spread, 2 * len(area))
        count = np.concatenate([count, more[(more >= low - 0.5) & (more < high + 0.49)]])[: len(area)]
    size = np.log(area)
    size = 0.7 * (size - size.mean()) / size.std() + 0.7 * generator.standard_normal(len(area))
    result = np.empty(len(area), int)
    result[np.argsort(size)] = np.sort(np.round(count).astype(int))
    return result


def draw_owners(
    generator: Generator, kind: Kind, structures: list[Structure]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """House and track, 0 or 1, of each scatterer (P,)."""
    count = draw_counts(generator, kind, np.array([one.outline.area for one in structures]))
    owner = np.repeat(np.arange(len(count)), count)
    first_track = generator.uniform(0.3, 0.7, len(count))
    return owner, (generator.random(len(owner)) > first_track[owner]).astype(int)


def draw_scatterers(
    generator: Generator, town: Town, owner: NDArray[np.int64], track: NDArray[np.int64], tracks: list[Track]
) -> Scatterers:
    """Places and movements of scatterers whose house and track (P,) are given."""
    towards = [one.los(one.incidence_deg)[:2] for one in tracks]
    places, heights, movements = [], [], []
    begin = np.searchsorted(owner, np.arange(len(town.structures) + 1))
    for number, structure in enumerate(town.structures):
        seen = track[begin[number] : begin[number + 1]]
        x, y, above = _draw_places(generator, structure, [towards[one] for one in seen])
        places.append(structure.building.on_map(x, y))
        heights.append(above)
        movements.append(structure.movement(x, y, above))
    place = np.concatenate(places)
    east, north = (place - town.origin).T
    ground = 30 + 5 * np.sin(east / 900) + 5 * np.cos(north / 1100)
    stray = generator.random(len(owner)) < OUTLIERS
    strays_mm = np.where(stray, generator.normal(0, OUTLIER_MM, len(owner)), 0.0)
    return Scatterers(owner, track, place, ground + np.concatenate(heights), np.concatenate(movements), strays_mm)


def _draw_places(generator: Generator, structure: Structure, towards: list[Array]) -> tuple[Array, Array, Array]:
    """x, y and height above the street (N,), m, of scatterers whose satellites lie towards (N, 2), east and north."""
    building, count = structure.building, len(towards)
    a, b = building.half
    x = y = np.empty(0)
    while len(x) < count:
        more_x, more_y = generator.uniform(-a, a, 4 * count), generator.uniform(-b, b, 4 * count)
        inside = building.holds(more_x, more_y)
        x, y = np.concatenate([x, more_x[inside]]), np.concatenate([y, more_y[inside]])
    x, y, above = x[:count].copy(), y[:count].copy(), np.full(count, structure.height_m)
    # On walls, from the street to the eaves; the more a wall is seen, the more are on it.
    for one in np.flatnonzero(generator.random(count) < ON_WALLS):
        facing = building.axes @ towards[one]
        seen = np.abs(facing) * np.array([b, a])
        if generator.random() < seen[0] / seen.sum():
            wall_x, wall_y = np.sign(facing[0]) * a, y[one]
        else:
            wall_x, wall_y = x[one], np.sign(facing[1]) * b
        if building.holds(wall_x, wall_y):  # a wall of an L may stand farther back
            x[one], y[one], above[one] = wall_x, wall_y, generator.uniform(0, structure.height_m)
    return x, y, above
