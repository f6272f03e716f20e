"""What footprints have to be, and which are made so."""

from __future__ import annotations

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.sources.footprints.repair import repair_polygons
from plumbline.sources.footprints.selection import Objects, Sieve, because
from plumbline.sources.footprints.solids import flatten_solids

MIN_AREA_M2 = 0.01
"""A smaller polygon is no building, but a line or a point drawn as one."""
FARTHEST_M = 1e8
"""No projection of the Earth has coordinates beyond; its girth is 4e7 m."""
ABSENT = "without a geometry, or with a ring that is not closed or has fewer than three corners"
NO_NUMBER = "with a coordinate that is no number (NaN or infinite)"
IN_DOUBT = "invalid, and which ground is the building cannot be told"
FLAT = f"without area (below {MIN_AREA_M2} m²)"
POLYGONAL = (shapely.GeometryType.POLYGON, shapely.GeometryType.MULTIPOLYGON)


def take_polygons(geometry: Objects) -> Objects:
    """Of collections (B,) their polygons, however deep: the building has its entrances drawn with it. Others stay."""
    taken = geometry.copy()
    for row in np.flatnonzero(shapely.get_type_id(geometry) == shapely.GeometryType.GEOMETRYCOLLECTION):
        polygons = _polygons(geometry[row])
        if polygons:
            taken[row] = polygons[0] if len(polygons) == 1 else shapely.multipolygons(polygons)
    return taken


def _polygons(shape: shapely.Geometry) -> list[shapely.Geometry]:
    if shape.is_empty:
        return []
    if shape.geom_type in ("MultiPolygon", "GeometryCollection"):
        return [polygon for part in shapely.get_parts(shape) for polygon in _polygons(part)]
    return [shape] if shape.geom_type == "Polygon" else []


def unlike_polygons(geometry: Objects) -> Objects:
    """(B,) why a feature is no polygon with numbers for coordinates; None where it is one."""
    kind = shapely.get_type_id(geometry)
    absent = shapely.is_missing(geometry) | shapely.is_empty(geometry)
    why = because(absent, ABSENT)
    for row in np.flatnonzero(~absent & ~np.isin(kind, POLYGONAL)):
        name = geometry[row].geom_type
        why[row] = f"{name} without a polygon in it" if name == "GeometryCollection" else f"{name} and no polygon"
    return np.where((why == None) & _beyond(geometry, np.inf), NO_NUMBER, why)  # noqa: E711


def unwrap(geometry: Objects) -> Objects:
    """Multipolygons of one part as polygons; those of several parts are one building and stay. Empty parts go."""
    multiple = np.flatnonzero(shapely.get_type_id(geometry) == shapely.GeometryType.MULTIPOLYGON)
    parts, owner = shapely.get_parts(geometry[multiple], return_index=True)
    filled = ~shapely.is_empty(parts)
    parts, owner = parts[filled], owner[filled]
    count = np.bincount(owner, minlength=len(multiple))
    unwrapped = geometry.copy()
    unwrapped[multiple[count == 1]] = parts[count[owner] == 1]
    fewer = np.flatnonzero((count > 1) & (count < shapely.get_num_geometries(geometry[multiple])))
    for row in fewer:
        unwrapped[multiple[row]] = shapely.multipolygons(parts[owner == row])
    return unwrapped


def without_empty_holes(geometry: Objects) -> Objects:
    """Polygons (B,) without holes of no corner, as GeoJSON can have: GEOS 3.14 ends the process that compares one."""
    parts, owner = shapely.get_parts(geometry, return_index=True)
    rings, part = shapely.get_rings(parts, return_index=True)
    filled = geometry.copy()
    for row in np.unique(owner[part[shapely.is_empty(rings)]]):
        drawn = [
            shapely.Polygon(shell, [hole for hole in holes if not hole.is_empty])
            for shell, *holes in map(shapely.get_rings, parts[owner == row])
        ]
        filled[row] = drawn[0] if len(drawn) == 1 else shapely.multipolygons(drawn)
    return filled


def leave_out_hidden(sieve: Sieve, geometry: Objects, crs: str) -> NDArray[np.bool_]:
    """Which polygons (B,), projected to `crs`, lie within what it can show; the others are left out.

    Raises:
        InputError: most lie outside: the file is of another place, or has its coordinates in the wrong order.
    """
    why = f"outside of what {crs}, the points' CRS, can show"
    outside = _beyond(geometry, FARTHEST_M)
    advice = "Are they of the same place, with the easting (longitude) before the northing (latitude)?"
    if 2 * outside.sum() > len(outside):
        raise InputError(f"{sieve.path}: {sieve.name(outside)} {why}. {advice}")
    return sieve.leave_out(because(outside, why), advice)


def make_valid(sieve: Sieve, geometry: Objects, crs: str) -> tuple[Objects, NDArray[np.bool_], NDArray[np.bool_]]:
    """Polygons (B,) in m as valid polygons without heights; which (B,) go on; and which (B,) were drawn anew.

    Which side of a ring that crosses itself is the building, only its owner knows: those are left out, unless the
    ground in doubt is a small part.

    Raises:
        InputError: none is left, or most have no area.
    """
    geometry, solid = flatten_solids(geometry)
    if solid.any():
        log.warning(
            "%s: %d drawn as solids (%s): the ground below their faces is taken.",
            sieve.path, solid.sum(), sieve.name(solid),
        )  # fmt: skip
    geometry = without_empty_holes(unwrap(geometry))
    invalid = ~shapely.is_valid(geometry)
    doubtful, lost, flat = (np.zeros(len(geometry), bool) for _ in range(3))
    if invalid.any():
        reason = shapely.is_valid_reason(geometry[int(np.argmax(invalid))])
        repaired = repair_polygons(geometry[invalid])
        doubtful[invalid] = ~repaired.certain & repaired.likely
        lost[invalid] = ~repaired.certain & ~repaired.likely
        if (sure := invalid & ~doubtful & ~lost).any():
            log.warning(
                "%s: %s invalid (the first: %s), repaired; the ground they cover stays the same.",
                sieve.path, sieve.name(sure), shapely.is_valid_reason(geometry[int(np.argmax(sure))]),
            )  # fmt: skip
        if doubtful.any():
            log.warning(
                "%s: %d invalid footprints drawn anew, with up to %.1f m² of ground in doubt: %s. Look at them.",
                sieve.path, doubtful.sum(), repaired.doubt_m2[doubtful[invalid]].max(), sieve.name(doubtful),
            )  # fmt: skip
        geometry[invalid & ~lost] = repaired.geometry[~lost[invalid]]
        where = f"The first fault: {reason} (m in {crs})."
        flat[invalid] = (shapely.area(repaired.geometry) < MIN_AREA_M2) & (repaired.doubt_m2 < MIN_AREA_M2)
    flat |= ~invalid & (shapely.area(geometry) < MIN_AREA_M2)
    if 2 * flat.sum() > len(flat):
        raise InputError(
            f"{sieve.path}: {sieve.name(flat)} {FLAT}. Are their coordinates those of the CRS that the file states, or "
            "are they degrees?"
        )
    why = because(lost, IN_DOUBT)
    why[flat] = FLAT
    advice = "Repair them (QGIS: Fix geometries; `ogr2ogr -makevalid`) and look at the result."
    keep = sieve.leave_out(why, f"{where} {advice}" if invalid.any() else advice)
    return geometry[keep], keep, (invalid | solid)[keep]


def _beyond(geometry: Objects, farthest: float) -> NDArray[np.bool_]:
    """(B,) which have a coordinate that is NaN, or not nearer to zero than `farthest`."""
    corners, owner = shapely.get_coordinates(geometry, return_index=True)
    bad = np.zeros(len(geometry), bool)
    bad[owner[~(np.abs(corners) < farthest).all(axis=1)]] = True
    return bad


def has_holes(geometry: Objects) -> NDArray[np.bool_]:
    """(B,) which polygons have a hole in some part."""
    parts, owner = shapely.get_parts(geometry, return_index=True)
    return np.bincount(owner, shapely.get_num_interior_rings(parts), len(geometry)) > 0
