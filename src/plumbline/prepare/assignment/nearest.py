"""Assign scatterers to buildings by position, and find the other buildings that may own them.

Shape legend: N points of all tracks, B footprints, K pairs of them, M points of the pairs
(a point counts in each of its pairs).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.special import log_ndtr

from plumbline.core.arrays import Float, Index, Mask
from plumbline.core.jobs import in_threads

UNASSIGNED = -1
PIECE = 1 << 16
"""Number of points made into geometries at a time: one takes ten times the memory of its
coordinates."""


class Assigned(NamedTuple):
    """Buildings of N points by position, and C other footprints within the buffer of a point."""

    owner: NDArray[np.intp]
    """(N,) or `UNASSIGNED`."""
    contested: Index
    """(C,) point that another footprint is near, ascending."""
    candidate: Index
    """(C,) that footprint."""
    distance: Float
    """(C,) of it, m; 0 inside."""


def assign_points(
    easting: NDArray[np.float64],
    northing: NDArray[np.float64],
    footprints: NDArray[np.object_],
    buffer_m: float,
    last: NDArray[np.bool_] | None = None,
) -> Assigned:
    """Return the index of the building of each point, or `UNASSIGNED`, and the others near it.

    A point belongs to the footprint that contains it. A point outside of all belongs to the nearest
    one within `buffer_m`, because positions of scatterers are off by metres. Of several footprints
    that contain it, the smallest counts: a building within the outline of its site, a part within
    its building. Of equally large ones, and of equally near ones, as at the wall that two houses
    share, the first counts. No other footprint changes this order: with some of the footprints
    only, as those of one tile, a point gets the same owner among them.

    Args:
        easting, northing: (N,) m.
        footprints: (B,) shapely polygons in the same CRS.
        buffer_m: largest distance outside of a footprint, m.
        last: (B,) which get only points that are near no other footprint, because they are not
            judged.
    """
    no_rows = np.zeros(0, np.intp)
    if not len(easting) or not len(footprints):
        unassigned = np.full(len(easting), UNASSIGNED, np.intp)
        return Assigned(unassigned, no_rows, no_rows, np.zeros(0))
    west, south, east, north = shapely.bounds(footprints).T
    # Around a footprint, by more than rounding can take off.
    margin = buffer_m * (1 + 1e-9) + 1e-6
    tree = shapely.STRtree(
        shapely.box(west - margin, south - margin, east + margin, north + margin)
    )
    size_rank = np.empty(len(footprints), np.intp)
    size_rank[np.lexsort((np.arange(len(footprints)), shapely.area(footprints)))] = np.arange(
        len(footprints)
    )

    def assign(start: int) -> Assigned:
        piece = slice(start, start + PIECE)
        points = shapely.points(easting[piece], northing[piece])
        owner = np.full(len(points), UNASSIGNED, dtype=np.intp)
        point, building = tree.query(points)
        distance = shapely.distance(points[point], footprints[building])
        near = distance <= buffer_m
        point, building, distance = point[near], building[near], distance[near]
        tie_rank = np.where(distance == 0, size_rank[building], building)
        is_last = np.zeros(len(building), bool) if last is None else last[building]
        order = np.lexsort((tie_rank, distance, is_last, point))
        point, building, distance = point[order], building[order], distance[order]
        is_first = np.diff(point, prepend=-1) > 0
        owner[point[is_first]] = building[is_first]
        return Assigned(owner, start + point[~is_first], building[~is_first], distance[~is_first])

    parts = in_threads(assign, range(0, len(easting), PIECE))
    return Assigned(*(np.concatenate(part) for part in zip(*parts, strict=True)))


NEAR_M = 15.0
"""Largest distance from a rival, m, of the scatterers that show how their building moves beside it.
It is less than the halo of a tile."""
OVERLAP = 0.1
"""Largest share of the smaller footprint that neighbours have in common: with more, one is a part
of the other, or its site."""
NOBODY = -1


class Rivals(NamedTuple):
    """M points of K pairs of buildings, by pair."""

    pair: NDArray[np.intp]
    """(K, 2) footprints, ascending."""
    point: Index
    of: Index
    """(M,) the pair."""
    first: Mask
    """(M,) whether the pair's first footprint has the point, by its position."""
    claimed: Mask
    """(M,) whether the other footprint is the nearest rival of its own within the buffer."""
    uncontested: Mask
    """(M,) whether no other footprint is within the buffer."""
    odds: Float
    """(M,) log odds that it is the first one's, by its position."""

    def take(self, rows: Mask | Index) -> Rivals:
        """Select rows; all pairs stay."""
        return Rivals(
            self.pair,
            self.point[rows],
            self.of[rows],
            self.first[rows],
            self.claimed[rows],
            self.uncontested[rows],
            self.odds[rows],
        )


def find_rivals(
    place: Float,
    *,
    assigned: Assigned,
    usable: Index,
    footprints: NDArray[np.object_],
    buffer_m: float,
    aside: Mask,
) -> Rivals:
    """Find pairs of buildings with a point between them, and the points of each beside the other.

    Args:
        place: (N, 2) m. assigned: these points, by position.
        usable: rows of the points with an owner and usable values.
        footprints: (B,) in the same CRS. buffer_m: twice the standard deviation of a position, m.
        aside: (B,) which are not judged, and so are no rivals.
    """
    owner, is_usable = assigned.owner, np.zeros(len(place), bool)
    is_usable[usable] = True
    contested, candidate = _nearest_rival(assigned, is_usable, footprints, aside)
    rival_of = np.full(len(place), NOBODY)
    rival_of[contested] = candidate
    pair = np.unique(np.sort(np.stack([owner[contested], candidate], axis=1), axis=1), axis=0)

    by_owner = usable[np.argsort(owner[usable], kind="stable")]
    start, stop = (np.searchsorted(owner[by_owner], pair, side) for side in ("left", "right"))
    count = (stop - start).ravel()
    of = np.repeat(np.arange(count.size), count)
    point = by_owner[
        np.arange(len(of))
        - np.repeat(np.cumsum(count) - count, count)
        + np.repeat(start.ravel(), count)
    ]
    of, first = of // 2, of % 2 == 0
    holder, rival = np.where(first, pair[of].T, pair[of, ::-1].T)
    odds = np.zeros(len(point))
    claimed = rival_of[point] == rival
    # Probability that the true position is inside, for normal errors across a straight wall.
    spread = buffer_m / 2
    at = shapely.points(place[point[claimed]])
    log_inside = [
        log_ndtr(-_signed_distance(at, footprints[building[claimed]]) / spread)
        for building in (holder, rival)
    ]
    odds[claimed] = np.where(first[claimed], 1, -1) * (log_inside[0] - log_inside[1])
    is_uncontested = rival_of[point] == NOBODY
    beside = _distance(place[point], footprints[rival]) <= NEAR_M
    return Rivals(pair, point, of, first, claimed, is_uncontested, odds).take(beside)


def _nearest_rival(
    assigned: Assigned, is_usable: Mask, footprints: NDArray[np.object_], aside: Mask
) -> tuple[Index, Index]:
    """Return each usable point that has a rival of its owner nearby, and its nearest rival."""
    owner, point, rival, distance = assigned
    is_rival = is_usable[point] & ~aside[owner[point]] & ~aside[rival]
    point, rival, distance = point[is_rival], rival[is_rival], distance[is_rival]
    low, high = np.sort(np.stack([owner[point], rival]), axis=0)
    key, at = np.unique(low * len(footprints) + high, return_inverse=True)
    polygon, rival_polygon = footprints[key // len(footprints)], footprints[key % len(footprints)]
    shared = shapely.area(shapely.intersection(polygon, rival_polygon)) > OVERLAP * np.minimum(
        shapely.area(polygon), shapely.area(rival_polygon)
    )
    is_separate = ~shared[at]
    point, rival, distance = point[is_separate], rival[is_separate], distance[is_separate]
    order = np.lexsort((rival, distance, point))
    point, first = np.unique(point[order], return_index=True)
    return point, rival[order][first]


def _distance(place: Float, footprints: NDArray[np.object_]) -> Float:
    """Return the distance (M,) of each place (M, 2) from a footprint (M,), m; 0 inside."""
    pieces = (slice(start, start + PIECE) for start in range(0, len(place), PIECE))
    distances = in_threads(
        lambda piece: shapely.distance(shapely.points(place[piece]), footprints[piece]), pieces
    )
    return np.concatenate([np.zeros(0), *distances])


def _signed_distance(points: NDArray[np.object_], footprints: NDArray[np.object_]) -> Float:
    """Return the distance (M,) of each point from its footprint's outline, m; negative inside."""
    distance = np.asarray(shapely.distance(points, footprints), float)
    inside = np.flatnonzero(distance == 0)
    outline = shapely.boundary(footprints[inside])
    distance[inside] = -shapely.distance(points[inside], outline)
    return distance
