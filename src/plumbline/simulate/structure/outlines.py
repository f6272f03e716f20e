"""Footprints that are not their rectangle: where the label's bays may lie, and the plane that is taken off."""

from __future__ import annotations

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.compass import Frames

Array = NDArray[np.float64]
Index = NDArray[np.intp]
FILLED = 0.999
"""A footprint with this share of its rectangle's area is the rectangle."""
EDGE_M = 0.01
"""A place so near outside of the outline is on it: turning a footprint into its own frame rounds."""


def own_outlines(polygon: NDArray[np.object_], frame: Frames) -> NDArray[np.object_]:
    """(B,) the footprints in their buildings' frames, m; None where the footprint is its rectangle."""
    result = np.full(len(polygon), None, dtype=object)
    other = np.flatnonzero(shapely.area(polygon) < FILLED * frame.side.prod(axis=1))
    if len(other):
        coordinates, owner = shapely.get_coordinates(polygon[other], return_index=True)
        own = shapely.set_coordinates(polygon[other].copy(), frame.to_building(other[owner], coordinates))
        result[other] = shapely.buffer(own, EDGE_M, join_style="mitre")
        shapely.prepare(result[other])
    return result


def inside(outline: NDArray[np.object_], building: Index, x: Array, y: Array) -> NDArray[np.bool_]:
    """(M,) whether places (M,) in the frames of the buildings `building` (M,) are on their outline (B,)."""
    return np.asarray(shapely.intersects_xy(outline[building], x, y), bool)


def tilts_over(up: Array, building: Index, at: Array, count: int) -> Array:
    """(count, 2) tilts, mm/m, of the least-squares planes through values (M,) on equal cells at (2, M) of buildings.

    The axes are not each other's normals over an L, so the plane's three coefficients are solved together.
    """
    columns = np.stack([np.ones_like(up), *at])
    normal = np.empty((count, 3, 3))
    right = np.empty((count, 3))
    for i in range(3):
        right[:, i] = np.bincount(building, columns[i] * up, count)
        for j in range(i, 3):
            normal[:, i, j] = normal[:, j, i] = np.bincount(building, columns[i] * columns[j], count)
    # Cells all on one line tell no tilt across it: the least solution has none.
    return np.asarray((np.linalg.pinv(normal, hermitian=True) @ right[..., None])[:, 1:, 0], float)
