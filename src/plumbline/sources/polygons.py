"""What footprints have to be, and how those that are not are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from plumbline.errors import InputError

MIN_AREA_M2 = 0.01
"""A smaller polygon is no building, but a line or a point drawn as one."""
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
        raise InputError(f"{path}: {name_features(other, ids)} not polygons (the first is a {kind}). Remove them.")


def unwrap(geometry: Objects) -> Objects:
    """Multipolygons of one part as polygons; those of several parts are one building and stay."""
    multiple = shapely.get_type_id(geometry) == shapely.GeometryType.MULTIPOLYGON
    single = multiple & (shapely.get_num_geometries(geometry) == 1)
    unwrapped = geometry.copy()
    unwrapped[single] = shapely.get_geometry(geometry[single], 0)
    return unwrapped


def check_valid(path: Path, geometry: Objects, ids: Objects, crs: str) -> None:
    """Refuse polygons (B,) that lie outside of the projection `crs`, cross themselves or have no area.

    Nothing is repaired: which side of a crossed ring is the building, only its owner knows.

    Raises:
        InputError: names file, features, ids and the place of the first fault.
    """
    infinite = ~np.isfinite(shapely.bounds(geometry)).all(axis=1)
    if infinite.any():
        raise InputError(f"{path}: {name_features(infinite, ids)} outside of what {crs}, the points' CRS, can show.")
    invalid = ~shapely.is_valid(geometry)
    if invalid.any():
        reason = shapely.is_valid_reason(geometry[int(np.argmax(invalid))])
        raise InputError(
            f"{path}: {name_features(invalid, ids)} invalid: {reason} (m in {crs}). Repair them (QGIS: Fix geometries; "
            "`ogr2ogr -makevalid`) and look at the result, or remove them."
        )
    flat = shapely.area(geometry) < MIN_AREA_M2
    if flat.any():
        raise InputError(f"{path}: {name_features(flat, ids)} without area (below {MIN_AREA_M2} m²). Remove them.")


def name_features(bad: NDArray[np.bool_], ids: Objects | None = None) -> str:
    """`feature 3 (B7), feature 9 (B2) and 4 more`; features count from 1 in the file's order."""
    rows = np.flatnonzero(bad)
    named = [f"feature {row + 1}" + ("" if ids is None else f" ({ids[row]})") for row in rows[:NAMED]]
    return ", ".join(named) + (f" and {len(rows) - NAMED} more" if len(rows) > NAMED else "")
