"""What footprints have to be, which are made so, and how those that are not are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.console import log
from plumbline.errors import InputError
from plumbline.sources.repair import repair_polygons

MIN_AREA_M2 = 0.01
"""A smaller polygon is no building, but a line or a point drawn as one."""
FARTHEST_M = 1e8
"""No projection of the Earth has coordinates beyond; its girth is 4e7 m."""
NAMED = 5
"""Offenders named in a message."""
Objects = NDArray[np.object_]


def check_present(path: Path, geometry: Objects, ids: Objects) -> None:
    """Refuse features (B,) that are not there or are no polygons.

    Raises:
        InputError: names file, features and ids.
    """
    absent = shapely.is_missing(geometry) | shapely.is_empty(geometry)
    if absent.any():
        raise InputError(
            f"{path}: {name_features(absent, ids)} without a geometry, or with a ring that is not closed or has fewer "
            "than three corners. Draw or remove them."
        )
    polygonal = (shapely.GeometryType.POLYGON, shapely.GeometryType.MULTIPOLYGON)
    other = ~np.isin(shapely.get_type_id(geometry), polygonal)
    if other.any():
        kind = geometry[int(np.argmax(other))].geom_type
        advice = "Give the buildings' outlines." if other.all() else "Remove them."
        raise InputError(f"{path}: {name_features(other, ids)} not polygons (the first is a {kind}). {advice}")


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


def check_numbers(path: Path, geometry: Objects, ids: Objects) -> None:
    """Refuse polygons (B,) with a coordinate that is no finite number.

    Raises:
        InputError: names file, features and ids.
    """
    bad = _beyond(geometry, np.inf)
    if bad.any():
        raise InputError(
            f"{path}: {name_features(bad, ids)} with a coordinate that is no number (NaN or infinite). Remove them."
        )


def check_shown(path: Path, geometry: Objects, ids: Objects, crs: str) -> None:
    """Refuse polygons (B,), projected to `crs`, that lie outside of what it can show.

    Raises:
        InputError: names file, features and ids.
    """
    outside = _beyond(geometry, FARTHEST_M)
    if outside.any():
        raise InputError(
            f"{path}: {name_features(outside, ids)} outside of what {crs}, the points' CRS, can show. Are they of the "
            "same place, with the easting (longitude) before the northing (latitude)?"
        )


def make_valid(path: Path, geometry: Objects, ids: Objects, crs: str) -> tuple[Objects, NDArray[np.bool_]]:
    """Polygons (B,) in m, those that can be repaired without a doubt on their ground drawn anew; and which (B,).

    Which side of a ring that crosses itself is the building, only its owner knows: those are refused.

    Raises:
        InputError: a polygon stays invalid, or has no area; names file, features, ids and the place of the first fault.
    """
    invalid = ~shapely.is_valid(geometry)
    if invalid.any():
        repaired = repair_polygons(geometry[invalid])
        refused = np.zeros(len(geometry), bool)
        refused[invalid] = ~repaired.certain
        if refused.any():
            reason = shapely.is_valid_reason(geometry[int(np.argmax(refused))])
            raise InputError(
                f"{path}: {name_features(refused, ids)} invalid: {reason} (m in {crs}), and which ground is the "
                "building cannot be told. Repair them (QGIS: Fix geometries; `ogr2ogr -makevalid`) and look at the "
                "result, or remove them."
            )
        reason = shapely.is_valid_reason(geometry[int(np.argmax(invalid))])
        log.warning(
            "%s: %s invalid (the first: %s), repaired; the ground they cover stays the same.",
            path, name_features(invalid, ids), reason,
        )  # fmt: skip
        geometry = geometry.copy()
        geometry[invalid] = repaired.geometry
    flat = shapely.area(geometry) < MIN_AREA_M2
    if flat.any():
        advice = "Remove them."
        if 2 * flat.sum() > len(flat):
            advice = "Are their coordinates those of the CRS that the file states, or are they degrees?"
        raise InputError(f"{path}: {name_features(flat, ids)} without area (below {MIN_AREA_M2} m²). {advice}")
    return geometry, invalid


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


def name_features(bad: NDArray[np.bool_], ids: Objects | None = None) -> str:
    """`feature 3 (B7), feature 9 (B2) and 4 more`; features count from 1 in the file's order."""
    rows = np.flatnonzero(bad)
    named = [f"feature {row + 1}" + ("" if ids is None else f" ({ids[row]})") for row in rows[:NAMED]]
    return ", ".join(named) + (f" and {len(rows) - NAMED} more" if len(rows) > NAMED else "")
