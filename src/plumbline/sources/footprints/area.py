"""Find the ground around the points, and that of a moved city."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import geopandas
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray
from pyproj import CRS, Transformer
from pyproj.exceptions import CRSError, ProjError

from plumbline.core.errors import InputError

LARGE_BYTES = 2**28
"""Size from which a file is read by area: some hundred thousand footprints as GeoJSON."""
LARGE_PACKED_BYTES = 2**26
PACKED = (".gz", ".zip", ".pbf", ".parquet", ".geoparquet")
MARGIN_M = 500.0
"""Width of the ground around the points that is read too, m: far more than their usual shift."""
STEPS = 21
"""Points on each side of the area that are reprojected (PROJ's own default)."""
Bounds = tuple[float, float, float, float]
"""West, south, east, north."""


@dataclass(frozen=True)
class Area:
    """Ground around the points."""

    bounds: Bounds
    """m, in `crs`."""
    crs: str

    @classmethod
    def around(cls, positions: NDArray[np.floating], crs: str) -> Area | None:
        """Return the area around positions (N, 2), m, with a margin; None without a finite one."""
        finite = positions[np.isfinite(positions).all(axis=1)]
        if not len(finite):
            return None
        west, south = finite.min(axis=0) - MARGIN_M
        east, north = finite.max(axis=0) + MARGIN_M
        return cls((float(west), float(south), float(east), float(north)), crs)

    def of_file(self, path: Path) -> Area | None:
        """Return the area itself if a file, or a folder's files together, is too large to
        be read whole; else None."""
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        packed = bool(files) and files[0].suffix.lower() in PACKED
        large = LARGE_PACKED_BYTES if packed else LARGE_BYTES
        return self if sum(file.stat().st_size for file in files) >= large else None

    def bounds_in(self, crs: CRS | None) -> Bounds | None:
        """Return the bounds in another CRS, easting or longitude first; None if they cannot
        be computed."""
        if crs is None:
            return None
        try:
            transformer = Transformer.from_crs(self.crs, crs, always_xy=True)
            bounds = transformer.transform_bounds(*self.bounds, densify_pts=STEPS)
        except ProjError:
            return None
        # West beyond east: the area is across the 180th meridian, which one box cannot describe.
        if not (np.isfinite(bounds).all() and bounds[0] <= bounds[2]):
            return None
        return bounds

    def __str__(self) -> str:
        west, south, east, north = self.bounds
        return f"{west:.0f}, {south:.0f} to {east:.0f}, {north:.0f} in {self.crs}"


def touching(geometry: NDArray[np.object_], bounds: Bounds) -> NDArray[np.bool_]:
    """Return which geometries (F,) reach into the bounds; a missing one does not."""
    west, south, east, north = shapely.bounds(geometry).T
    return np.asarray(
        (west <= bounds[2]) & (east >= bounds[0]) & (south <= bounds[3]) & (north >= bounds[1])
    )


GROUND_CRS, GROUND_EASTING, GROUND_NORTHING = "ground_crs", "ground_easting", "ground_northing"
COLUMNS = (GROUND_CRS, GROUND_EASTING, GROUND_NORTHING)


class GroundCentres(NamedTuple):
    """Ground under B buildings: its CRS, and the buildings' centres in it."""

    crs: str
    """Projected GROUND_CRS."""
    centre: NDArray[np.float64]
    """(B, 2) easting and northing of their centroids, m."""


def ground_of(buildings: geopandas.GeoDataFrame, crs: str, source: str) -> GroundCentres:
    """Read the ground from the columns; without them, use the footprints' own centroids.

    Args:
        buildings: at least one footprint. crs: their projected CRS.
        source: names them in messages.

    Raises:
        InputError: the columns are there but name no projected CRS, or several, or a cell is empty.
    """
    if not set(COLUMNS) <= set(buildings.columns):
        return GroundCentres(
            crs,
            shapely.get_coordinates(
                shapely.centroid(np.asarray(buildings.geometry.values, object))
            ),
        )
    coordinates = [
        pd.to_numeric(buildings[name], errors="coerce").to_numpy(float)
        for name in (GROUND_EASTING, GROUND_NORTHING)
    ]
    centre = np.stack(coordinates, axis=1)
    is_unknown = ~np.isfinite(centre).all(axis=1)
    if is_unknown.any():
        row = int(np.argmax(is_unknown))
        cells = f"{buildings[GROUND_EASTING].iloc[row]}, {buildings[GROUND_NORTHING].iloc[row]}"
        raise InputError(
            f"{source}: columns {GROUND_EASTING}, {GROUND_NORTHING}: {cells} found in row "
            f"{row + 1}; a place in m is needed. Correct it, or remove the three columns ground_*.",
            key="ground.no_place",
        )
    return GroundCentres(
        one_crs([str(name) for name in buildings[GROUND_CRS].unique()], source), centre
    )


def one_crs(named: list[str], source: str) -> str:
    """Return the one CRS that all names agree on.

    Raises:
        InputError: none, several, or what is no projected CRS.
    """
    try:
        is_projected = len(named) == 1 and CRS.from_user_input(named[0]).is_projected
    except CRSError:
        is_projected = False
    if not is_projected:
        raise InputError(
            f"{source}: column {GROUND_CRS}: {', '.join(sorted(named)[:5]) or 'nothing'} found; "
            "one projected CRS is needed for all footprints. Correct it, or remove the three "
            "columns ground_*.",
            key="ground.not_one_crs",
        )
    return named[0]
