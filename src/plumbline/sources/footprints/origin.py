"""Find the true ground of the buildings of a moved city, from columns beside its footprints."""

from __future__ import annotations

from typing import NamedTuple

import geopandas
import numpy as np
import pandas as pd
import pyproj
import shapely
from numpy.typing import NDArray

from plumbline.core.errors import InputError

GROUND_CRS, GROUND_EASTING, GROUND_NORTHING = "ground_crs", "ground_easting", "ground_northing"
COLUMNS = (GROUND_CRS, GROUND_EASTING, GROUND_NORTHING)


class Ground(NamedTuple):
    """Ground of B buildings: CRS and centres."""

    crs: str
    """Projected GROUND_CRS."""
    centre: NDArray[np.float64]
    """(B, 2) easting and northing of their centroids, m."""


def ground_of(buildings: geopandas.GeoDataFrame, crs: str, source: str) -> Ground:
    """Read the ground from the columns; without them, use the footprints' own centroids.

    Args:
        buildings: at least one footprint. crs: their projected CRS.
        source: names them in messages.

    Raises:
        InputError: the columns are there but name no projected CRS, several, or no place.
    """
    if not set(COLUMNS) <= set(buildings.columns):
        return Ground(crs, shapely.get_coordinates(shapely.centroid(np.asarray(buildings.geometry.values, object))))
    places = [
        pd.to_numeric(buildings[name], errors="coerce").to_numpy(float) for name in (GROUND_EASTING, GROUND_NORTHING)
    ]
    centre = np.stack(places, axis=1)
    bad = ~np.isfinite(centre).all(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        found = f"{buildings[GROUND_EASTING].iloc[row]}, {buildings[GROUND_NORTHING].iloc[row]}"
        raise InputError(
            f"{source}: columns {GROUND_EASTING}, {GROUND_NORTHING}: {found} found in row {row + 1}; a place in m is "
            "needed. Correct it, or remove the three columns ground_*."
        )
    return Ground(one_crs([str(name) for name in buildings[GROUND_CRS].unique()], source), centre)


def one_crs(named: list[str], source: str) -> str:
    """Return the one CRS that all names agree on.

    Raises:
        InputError: none, several, or what is no projected CRS.
    """
    if len(named) != 1 or not _is_projected(named[0]):
        raise InputError(
            f"{source}: column {GROUND_CRS}: {', '.join(sorted(named)[:5]) or 'nothing'} found; one projected CRS is "
            "needed for all footprints. Correct it, or remove the three columns ground_*."
        )
    return named[0]


def _is_projected(name: str) -> bool:
    try:
        return bool(pyproj.CRS.from_user_input(name).is_projected)
    except pyproj.exceptions.CRSError:
        return False
