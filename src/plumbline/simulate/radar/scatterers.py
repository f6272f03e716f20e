"""Draw the radar's points: on roofs and facades, on the ground around, and sometimes on
something else."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.arrays import Array
from plumbline.simulate.radar.acquisition import RadarBand
from plumbline.simulate.structure.layout import CityLayout

STRUCTURE, GROUND, ASTRAY = range(3)
"""Kinds: on the building; on the ground beside it; a reflection that is on neither and
moves on its own."""
ASTRAY_SHARE = 0.02
ON_WALLS = (0.1, 0.8)
"""Share of a building's points that are on its walls."""
NEAR = (1.0, 2.0)
"""Beta distribution of a building's place in the band's range of position errors, on a
logarithmic scale: errors of a metre or two are usual, those of ten are rare."""


@dataclass(frozen=True)
class SimulatedScatterers:
    """N points of a city, of both tracks together, in local metres."""

    building: NDArray[np.intp]
    """(N,) the building a point is on, or the nearest to it."""
    kind: NDArray[np.intp]
    """(N,) STRUCTURE, GROUND or ASTRAY."""
    track: NDArray[np.intp]
    """(N,) 0 ascending, 1 descending."""
    east_north: Array
    """(N, 2) true position."""
    height: Array
    """(N,) true height above the building's ground, m."""
    noise: Array
    """(N,) standard deviation of the displacement of one epoch, mm."""

    def subset(self, index: NDArray[np.intp]) -> SimulatedScatterers:
        """Select the points `index`."""
        return SimulatedScatterers(*(getattr(self, column.name)[index] for column in fields(self)))


def draw_scatterers(
    rng: np.random.Generator, layout: CityLayout, band: RadarBand, look: Array
) -> SimulatedScatterers:
    """Draw the points of all buildings, and 10 to 20 % more on the ground between them.

    Args:
        rng: the generator to draw from.
        layout: the buildings.
        band: of the satellite.
        look: (T, 2) horizontal unit vector in which each track looks, away from the satellite.
    """
    count = len(layout.height)
    building = np.repeat(np.arange(count), _draw_counts(rng, layout, band))
    n_on_buildings = len(building)
    parent, ground = _on_ground(rng, layout, round(float(rng.uniform(0.1, 0.2)) * n_on_buildings))
    track = _draw_tracks(rng, np.concatenate([building, parent]), count)
    # Side-looking radar sees the walls that face it. Corners with the ground and objects on
    # the roof reflect as well, so the share on walls, and on those that face it, differs
    # between buildings.
    on_wall = rng.random(n_on_buildings) < rng.uniform(*ON_WALLS, count)[building]
    facing = rng.random(n_on_buildings) < rng.uniform(0, 1, count)[building]
    outline = _on_outline(
        rng, layout, building, np.where(facing[:, None], look[track[:n_on_buildings]], 0.0)
    )
    east_north = np.where(on_wall[:, None], outline, _inside(rng, layout.polygon, building))
    roof = np.where(on_wall, rng.random(n_on_buildings) < 0.35, True)
    share = np.where(roof, rng.uniform(0.9, 1, n_on_buildings), rng.uniform(0, 1, n_on_buildings))
    height = share * layout.height[building]
    kind = np.where(rng.random(n_on_buildings) < ASTRAY_SHARE, ASTRAY, STRUCTURE)
    height = np.where(
        kind == ASTRAY, rng.uniform(-0.3, 1.6, n_on_buildings) * layout.height[building], height
    )
    building, kind = (
        np.concatenate([building, parent]),
        np.concatenate([kind, np.full(len(parent), GROUND)]),
    )
    return SimulatedScatterers(
        building=building,
        kind=kind,
        track=track,
        east_north=np.concatenate([east_north, ground]),
        height=np.concatenate([height, rng.normal(0, 0.2, len(parent))]),
        noise=_draw_noise(rng, building, count, band),
    )


def position_errors(
    rng: np.random.Generator,
    *,
    building: NDArray[np.intp],
    track: NDArray[np.intp],
    axes: Array,
    rise: Array,
    band: RadarBand,
) -> Array:
    """Draw errors (N, 3) of easting, northing and height, m.

    Wide in ground range, narrow in azimuth, with a share common to the points of one
    building in one track. A distance to the satellite does not depend on the direction
    across: a point too high is too far away as well (Dheenathayalan et al. 2016,
    High-precision positioning of radar scatterers). How much of the height's error is of
    that kind is a building's own.

    Args:
        rng: the generator to draw from.
        building: (N,) of the points.
        track: (N,) of the points, from 0.
        axes: (N, 2, 2) horizontal unit vectors: ground range, azimuth.
        rise: (N,) height that a point gains with each metre of ground range across the line
            of sight: the tangent of the angle of incidence.
        band: of the satellite.
    """
    count = int(building.max(initial=0)) + 1
    low, high = band.position_m
    in_range = low * (high / low) ** rng.beta(*NEAR, count)
    sigma = np.stack([in_range, in_range * rng.uniform(0.2, 0.6, count)], axis=1)
    common = rng.uniform(0, 0.4, count)[building][:, None]
    shared = rng.standard_normal((count, int(track.max(initial=0)) + 1, 2))[building, track]
    independent = rng.standard_normal(shared.shape)
    error = (np.sqrt(common) * shared + np.sqrt(1 - common) * independent) * sigma[building]
    horizontal = np.einsum("nk,nkc->nc", error, axes)
    tied = rng.uniform(0, 1, count)[building]
    height_error = rng.uniform(*band.height_m, count)[building] * rng.standard_normal(
        len(independent)
    )
    vertical = tied * rise * error[:, 0] + (1 - tied) * height_error
    return np.concatenate([horizontal, vertical[:, None]], axis=1)


def _draw_counts(rng: np.random.Generator, layout: CityLayout, band: RadarBand) -> NDArray[np.intp]:
    """Draw the number of points on each building: about 12 (C) or 46 (X), more on larger ones."""
    size = np.log(layout.frames.side.prod(axis=1) / 300)
    fewest, most = band.points
    if most <= 20:
        counts = rng.normal(12, 3.5, len(size)) + 1.5 * size
    else:
        counts = np.exp(rng.normal(np.log(42), 0.45, len(size)) + 0.15 * size)
    return np.asarray(np.clip(np.rint(counts), fewest, most), np.intp)


def _draw_tracks(
    rng: np.random.Generator, building: NDArray[np.intp], count: int
) -> NDArray[np.intp]:
    """Draw the track of each point: one building in ten has one track only, the others have
    both."""
    ascending = rng.beta(6, 6, count)
    single = rng.random(count) < 0.1
    ascending[single] = rng.integers(0, 2, int(single.sum()))
    track = np.where(rng.random(len(building)) < ascending[building], 0, 1)
    track[:2] = 0, 1  # even the smallest part of a city has a point in both products
    return track


def _draw_noise(
    rng: np.random.Generator, building: NDArray[np.intp], count: int, band: RadarBand
) -> Array:
    typical = rng.uniform(*band.noise_mm, count)[building]
    return np.clip(typical * np.exp(rng.normal(0, 0.15, len(building))), *band.noise_mm)


def _inside(
    rng: np.random.Generator, polygon: NDArray[np.object_], building: NDArray[np.intp]
) -> Array:
    """Draw positions (N, 2) evenly over each point's polygon, by rejection from its bounds."""
    bounds = shapely.bounds(polygon)[building]
    shapely.prepare(polygon)
    position, open_ = np.zeros((len(building), 2)), np.arange(len(building))
    while len(open_):
        trial = rng.uniform(bounds[open_, :2], bounds[open_, 2:])
        position[open_] = trial
        open_ = open_[~shapely.contains_xy(polygon[building[open_]], trial[:, 0], trial[:, 1])]
    return position


def _on_outline(
    rng: np.random.Generator, layout: CityLayout, building: NDArray[np.intp], look: Array
) -> Array:
    """Draw positions (N, 2) along the walls, up to a twelfth of the way to the middle.

    Of the building's walls those that face against `look` (N, 2), by the breadth in which
    they are seen; where it is 0, all, by their length.
    """
    ring = shapely.get_exterior_ring(layout.polygon)
    corner, owner = shapely.get_coordinates(ring, return_index=True)
    is_edge = owner[1:] == owner[:-1]  # not from the end of one ring to the start of the next
    start, edge, owner = corner[:-1][is_edge], np.diff(corner, axis=0)[is_edge], owner[:-1][is_edge]
    length = np.hypot(*edge.T)
    turn = np.where(shapely.is_ccw(ring), 1.0, -1.0)[owner]
    outward = turn[:, None] * np.column_stack([edge[:, 1], -edge[:, 0]])
    chosen = np.empty(len(building), np.intp)
    for direction in np.unique(look, axis=0):
        weight = np.maximum(-outward @ direction, 0) if direction.any() else length
        total = np.concatenate([[0.0], np.cumsum(weight)])
        first = np.searchsorted(owner, np.arange(len(ring) + 1))
        rows = np.flatnonzero((look == direction).all(axis=1))
        low, high = total[first[building[rows]]], total[first[building[rows] + 1]]
        at = low + rng.random(len(rows)) * (high - low)
        chosen[rows] = np.minimum(
            np.searchsorted(total, at, side="right") - 1, first[building[rows] + 1] - 1
        )
    outer = start[chosen] + rng.random((len(building), 1)) * edge[chosen]
    inward = rng.uniform(0, 0.08, (len(building), 1))
    return np.asarray(outer + inward * (layout.frames.centre[building] - outer), float)


def _on_ground(
    rng: np.random.Generator, layout: CityLayout, count: int
) -> tuple[NDArray[np.intp], Array]:
    """Draw up to `count` positions 1 to 12 m around the buildings, less those that fall on
    a footprint."""
    parent = rng.integers(0, len(layout.height), count)
    angle, half = rng.uniform(-np.pi, np.pi, count), layout.frames.side[parent] / 2
    offset = (
        (half + rng.uniform(1, 12, (count, 1)))
        * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        * np.sqrt(2)
    )
    turn = layout.frames.angle[parent]
    cos, sin = np.cos(turn), np.sin(turn)
    east, north = offset[:, 0] * cos - offset[:, 1] * sin, offset[:, 0] * sin + offset[:, 1] * cos
    position = layout.frames.centre[parent] + np.stack([east, north], axis=1)
    covered, _ = shapely.STRtree(layout.polygon).query(shapely.points(position), predicate="within")
    free = np.setdiff1d(np.arange(count), covered)
    return parent[free], position[free]
