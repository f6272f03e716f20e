"""Join geometries across 180 degrees, and cut them there for GeoJSON (RFC 7946, section 3.1.9)."""

from __future__ import annotations

import geopandas
import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.sources.crs import GLOBE

TURN_DEG = 360.0
DECIMALS = 7
"""Number of decimals of longitude and latitude: 1 cm."""
Objects = NDArray[np.object_]


def to_degrees(geometry: geopandas.GeoSeries) -> Objects:
    """Convert to rounded longitude and latitude of WGS 84, beyond 180 if a geometry crosses
    180 degrees."""
    degrees = shapely.transform(
        geometry.to_crs(GLOBE).to_numpy(), lambda position: position.round(DECIMALS)
    )
    return unrolled(np.asarray(degrees, object))[0]


def unrolled(geometry: Objects, turn: float = TURN_DEG) -> tuple[Objects, NDArray[np.bool_]]:
    """Return geometries (B,), with longitudes from 0 if they cross 180 degrees, and which (B,) do.

    No building is half as wide as the Earth: one that seems so has corners on both sides.
    """
    west, _, east, _ = shapely.bounds(geometry).T
    across = np.asarray(east - west > turn / 2)
    if not across.any():
        return geometry, across
    turned, high = geometry.copy(), shapely.has_z(geometry)
    for rows, has_z in ((across & ~high, False), (across & high, True)):
        turned[rows] = shapely.transform(
            geometry[rows],
            lambda at: np.column_stack([at[:, 0] % turn, at[:, 1:]]),
            include_z=has_z,
        )
    return turned, across


def joined(geometry: Objects, turn: float = TURN_DEG) -> Objects:
    """Return polygons (B,) in degrees with the parts that were cut apart at 180 degrees as one."""
    whole, across = unrolled(geometry, turn)
    several = across & (shapely.get_num_geometries(whole) > 1) & ~shapely.has_z(whole)
    for row in np.flatnonzero(several):
        parts = shapely.get_parts(whole[row])
        if shapely.is_valid(parts).all():
            whole[row] = shapely.union_all(parts)
    return whole


def are_degrees(geometry: NDArray[np.object_]) -> bool:
    """Return whether most coordinates (N,) may be degrees from -180 or 0, in any order of axes."""
    places = shapely.get_coordinates(geometry)
    return not len(places) or bool((np.nanmedian(np.abs(places), axis=0) <= TURN_DEG).all())


def cut(geometry: Objects) -> Objects:
    """Cut geometries (B,) of `to_degrees` at 180 degrees; each part gets its side's longitudes."""
    cut_geometry = geometry.copy()
    for row in np.flatnonzero(shapely.bounds(geometry)[:, 2] > TURN_DEG / 2):
        sides = [_cut_side(geometry[row], turns) for turns in (0, 1)]
        cut_geometry[row] = shapely.union_all([side for side in sides if side is not None])
    return cut_geometry


def _cut_side(shape: shapely.Geometry, turns: int) -> shapely.Geometry | None:
    """Return the part of a geometry in a turn about 0 degrees; None for no part, or its edge
    alone."""
    west = (turns - 0.5) * TURN_DEG
    pieces = shapely.get_parts(
        shapely.intersection(shape, shapely.box(west, -90, west + TURN_DEG, 90))
    )
    parts = pieces[shapely.get_dimensions(pieces) == shapely.get_dimensions(shape)]
    return (
        shapely.transform(shapely.union_all(parts), lambda at: at - [turns * TURN_DEG, 0])
        if len(parts)
        else None
    )
