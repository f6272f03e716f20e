"""Buildings drawn as solids, with floor, walls and roof: the ground below their faces."""

from __future__ import annotations

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.sources.footprints.repair import MIN_PART_M2
from plumbline.sources.footprints.selection import Objects

WALL_M = 0.1
"""A face that stands on a line of the ground and is at least so high is a wall."""


def flatten_solids(geometry: Objects) -> tuple[Objects, NDArray[np.bool_]]:
    """Polygons (B,) in m without heights, those with a wall as the ground below their faces; and which (B,) had one.

    Seen from above, walls are lines and the roof lies over the floor: no valid polygon, and yet it is clear which
    ground is the building.
    """
    flat = shapely.force_2d(geometry)
    solid = np.zeros(len(geometry), bool)
    tall = np.flatnonzero(shapely.has_z(geometry) & (shapely.get_num_geometries(geometry) > 1))
    for row in tall:
        faces = shapely.get_parts(geometry[row])
        ground = shapely.force_2d(faces)
        lying = shapely.area(ground) > MIN_PART_M2
        if not any(_height(face) > WALL_M for face in faces[~lying]):
            continue
        solid[row] = True
        flat[row] = _ground(ground[lying & shapely.is_valid(ground)])
    return flat, solid


def _height(face: shapely.Geometry) -> float:
    z = shapely.get_coordinates(face, include_z=True)[:, 2]
    return float(z.max(initial=-np.inf) - z.min(initial=np.inf))


def _ground(faces: Objects) -> shapely.Geometry:
    parts = shapely.get_parts(shapely.union_all(faces))
    parts = parts[(shapely.get_dimensions(parts) == 2) & (shapely.area(parts) > MIN_PART_M2)]
    return parts[0] if len(parts) == 1 else shapely.multipolygons(parts)
