"""Which building a scatterer belongs to."""

from __future__ import annotations

import numpy as np
import shapely
from numpy.typing import NDArray

UNASSIGNED = -1


def assign_points(
    easting: NDArray[np.float64],
    northing: NDArray[np.float64],
    footprints: NDArray[np.object_],
    buffer_m: float,
    last: NDArray[np.bool_] | None = None,
) -> NDArray[np.intp]:
    """Index of the building of each point, or `UNASSIGNED`.

    A point belongs to the footprint it lies in; a point outside of all belongs to the nearest one within
    `buffer_m`, because positions of scatterers are off by metres. Of several that it lies in, the smallest counts: a
    building within the outline of its site, a part within its building. Of equally large ones, and of equally near
    ones, as at the wall that two houses share, the first. Who gets a point is so decided by an order that no other
    footprint changes: whoever looks at some of the footprints only, as at those of one tile, finds the same owner
    among them.

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
    size_rank = np.empty(len(footprints), np.intp)
    size_rank[np.lexsort((np.arange(len(footprints)), shapely.area(footprints)))] = np.arange(len(footprints))
    alike = np.where(distance == 0, size_rank[building], building)
    wanted = np.zeros(len(building), bool) if last is None else last[building]
    order = np.lexsort((alike, distance, wanted, point))
    point, building = point[order], building[order]
    first = np.flatnonzero(np.r_[True, np.diff(point) > 0])
    owner[point[first]] = building[first]
    return owner
