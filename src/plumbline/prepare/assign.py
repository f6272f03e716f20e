"""Which building a scatterer belongs to."""

from __future__ import annotations

import numpy as np
import shapely
from numpy.typing import NDArray

UNASSIGNED = -1


def assign_points(
    easting: NDArray[np.float64], northing: NDArray[np.float64], footprints: NDArray[np.object_], buffer_m: float
) -> NDArray[np.intp]:
    """Index of the building of each point, or `UNASSIGNED`.

    A point belongs to the footprint it lies in; a point outside of all belongs to the nearest one within
    `buffer_m`, because positions of scatterers are off by metres. Of equally near footprints, the first counts.

    Args:
        easting, northing: (N,) m.
        footprints: (B,) shapely polygons in the same CRS.
        buffer_m: largest distance outside of a footprint, m.
    """
    owner = np.full(len(easting), UNASSIGNED, dtype=np.intp)
    if not len(easting) or not len(footprints):
        return owner
    tree = shapely.STRtree(footprints)
    points = shapely.points(easting, northing)
    pairs, distance = tree.query_nearest(
        points, max_distance=max(buffer_m, 1e-9), return_distance=True, all_matches=True
    )
    near = distance <= buffer_m
    point, building = pairs[0][near], pairs[1][near]
    order = np.lexsort((building, point))
    point, building = point[order], building[order]
    first = np.ones(len(point), dtype=bool)
    first[1:] = point[1:] != point[:-1]
    owner[point[first]] = building[first]
    return owner
