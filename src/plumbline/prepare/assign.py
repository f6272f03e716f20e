"""Which building a scatterer belongs to."""

from __future__ import annotations

import numpy as np
import shapely
from numpy.typing import NDArray

UNASSIGNED = -1
STEP_M = 0.01
"""Outside of footprints, distances are told apart by so much: a wall that two share is one wall, however rounded."""


def assign_points(
    easting: NDArray[np.float64],
    northing: NDArray[np.float64],
    footprints: NDArray[np.object_],
    buffer_m: float,
    last: NDArray[np.bool_] | None = None,
) -> NDArray[np.intp]:
    """Index of the building of each point, or `UNASSIGNED`.

    A point belongs to the footprint it lies in; a point outside of all belongs to the nearest one within
    `buffer_m`, because positions of scatterers are off by metres. Of several that it lies in, or that are equally near
    to within `STEP_M`, the smallest counts: a building within the outline of its site, a part within its building. Of
    equally large ones, the first. Who gets a point is so decided by an order that no other footprint changes: whoever
    looks at some of the footprints only, as at those of one tile, finds the same owner among them.

    Args:
        easting, northing: (N,) m.
        footprints: (B,) shapely polygons in the same CRS.
        buffer_m: largest distance outside of a footprint, m.
        last: (B,) which get only points that no other footprint wants, because they are not judged; none without.
    """
    owner = np.full(len(easting), UNASSIGNED, dtype=np.intp)
    if not len(easting) or not len(footprints):
        return owner
    west, south, east, north = shapely.bounds(footprints).T
    # Around a footprint, by more than rounding can take off.
    margin = buffer_m * (1 + 1e-9) + 1e-6
    tree = shapely.STRtree(shapely.box(west - margin, south - margin, east + margin, north + margin))
    points = shapely.points(easting, northing)
    point, building = tree.query(points)
    distance = shapely.distance(points[point], footprints[building])
    near = distance <= buffer_m
    point, building, distance = point[near], building[near], distance[near]
    if not len(point):
        return owner
    by_size = np.lexsort((np.arange(len(footprints)), shapely.area(footprints)))
    size_rank = np.empty(len(footprints), np.int64)
    size_rank[by_size] = np.arange(len(footprints))
    step = np.ceil(distance / STEP_M).astype(np.int64)
    if last is not None:
        step += last[building] * np.int64(np.ceil(buffer_m / STEP_M) + 1)
    # The pairs come point by point.
    starts = np.flatnonzero(np.r_[True, np.diff(point) > 0])
    best = np.minimum.reduceat(step * len(footprints) + size_rank[building], starts)
    owner[point[starts]] = by_size[best % len(footprints)]
    return owner
