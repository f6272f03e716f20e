"""Check the CRS of footprints: whether it is there, is known, and fits the coordinates."""

from __future__ import annotations

import json
from pathlib import Path

import geopandas
import numpy as np
from pyproj import CRS
from pyproj.exceptions import ProjError

from plumbline.core.errors import InputError
from plumbline.params import PARAMS_FILE

WRITE = {".shp": "Add the Shapefile's .prj, or write", ".zip": "If it holds a Shapefile, add its .prj. Else write"}


def check_known(path: Path, crs: str) -> None:
    """Refuse a stated CRS that PROJ does not know.

    Raises:
        InputError: it is not known.
    """
    try:
        CRS.from_user_input(crs)
    except ProjError:
        raise InputError(f"{path}: ingest.footprints: crs {crs!r} is not known. Name it like EPSG:4326.") from None


def check_crs(path: Path, frame: geopandas.GeoDataFrame) -> str:
    """Return the name of the footprints' CRS.

    Raises:
        InputError: there is none, it is neither geographic nor projected, or the coordinates cannot be its degrees.
    """
    if frame.crs is None:
        raise _missing(path, frame)
    name = frame.crs.to_string() if frame.crs.to_epsg() is None else f"EPSG:{frame.crs.to_epsg()}"
    if not (frame.crs.is_geographic or frame.crs.is_projected):
        raise InputError(
            f"{path}: CRS {name} ({frame.crs.type_name}) found; footprints need a geographic or a projected one."
        )
    if frame.crs.is_geographic:
        # Half a turn in the unit of the CRS: 180 degrees, 200 grads.
        half = np.pi / frame.crs.axis_info[0].unit_conversion_factor
        west, south, east, north = frame.total_bounds
        round_ = 0 <= west <= east <= 2 * half  # longitudes counted from 0 to 360
        if (max(-west, east) > half and not round_) or max(-south, north) > half / 2:
            raise InputError(
                f"{path}: coordinates from {west:.10g}, {south:.10g} to {east:.10g}, {north:.10g} cannot be degrees "
                f"of longitude and latitude, as the CRS ({name}) says"
                + (
                    ", unless the latitude stands first: write the longitude before it. "
                    if max(-west, east) <= half / 2 and max(-south, north) <= half
                    else ". "
                )
                + "A GeoJSON without `crs` is in degrees: reproject it, or name its CRS."
            )
    return name if len(name) < 40 else str(frame.crs.name)


def _missing(path: Path, frame: geopandas.GeoDataFrame) -> InputError:
    """Make the error that asks for a CRS, with one that can fit the coordinates."""
    west, south, east, north = frame.total_bounds
    if max(-west, east) <= 360 and max(-south, north) <= 180:  # also counted from 0, or with the latitude first
        crs, told, replace = "EPSG:4326", "look like degrees", ""
    else:
        crs, told = "EPSG:32633", "are not degrees: ask for their CRS where the file comes from"
        replace = f", with your CRS in place of {crs} (UTM zone 33 north, an example)"
    return InputError(
        f"{path}: the footprints have no CRS. Their coordinates, from {west:.7g}, {south:.7g} to {east:.7g}, "
        f"{north:.7g}, {told}. {WRITE.get(path.suffix.lower(), 'Write')} this line into {PARAMS_FILE}{replace}:\n"
        f'ingest: {{footprints: {{{json.dumps(path.name, ensure_ascii=False)}: {{crs: "{crs}"}}}}}}'
    )
