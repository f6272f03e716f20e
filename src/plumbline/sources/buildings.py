"""Footprints: any file of polygons -> the buildings table, in the points' projected CRS."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pyogrio
import shapely
from numpy.typing import NDArray
from pyproj.exceptions import ProjError

from plumbline.console import log
from plumbline.errors import InputError
from plumbline.files import atomic_file
from plumbline.sources.polygons import NAMED, check_present, check_valid, name_features, unwrap

ID = "building_id"
HEIGHT = "height_m"
PARQUET_SUFFIXES = (".parquet", ".geoparquet")
SHAPEFILE_NAME = 10
"""Shapefiles cut the names of columns to so many characters: `building_i`."""
MAX_WHOLE = 2.0**53
"""Formats with no nullable integers make ids floats: whole numbers up to here are written back as such."""
READ_FAULTS = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,
    shapely.errors.ShapelyError,
    pa.ArrowException,
)
"""What GDAL, GEOS and Arrow raise, through geopandas, on files that are not what they seem."""


def read_buildings(path: Path, crs: str, id_column: str = ID) -> geopandas.GeoDataFrame:
    """Read footprints and reproject them to `crs`.

    The columns of the file stay as they are (nested JSON as text). `building_id` becomes text; where the file has no
    such column, the order of the file gives the names `B0000001`, `B0000002`, … The CRS of the file is in
    `.attrs["source_crs"]`.

    Args:
        path: GeoJSON, GeoPackage, Shapefile (also zipped), GeoParquet, or what else geopandas reads.
        crs: projected CRS of the points.
        id_column: column that identifies a building; it is copied to `building_id` if it is another.

    Raises:
        InputError: the file cannot be read, has no CRS, no footprints, one that is not a valid polygon, or ids that
            repeat; the message names the features.
    """
    frame = _read(path)
    if not len(frame):
        raise InputError(f"{path}: it holds no footprints.")
    ids = _identifiers(path, frame, id_column)
    check_present(path, frame.geometry.to_numpy(), ids)
    source_crs = _check_crs(path, frame)
    try:
        frame = frame.to_crs(crs)
    except ProjError as error:
        raise InputError(f"{path}: cannot be reprojected from {source_crs} to {crs} ({error}).") from None
    geometry = unwrap(shapely.force_2d(frame.geometry.to_numpy()))
    check_valid(path, geometry, ids, crs)
    frame = frame.set_geometry(geopandas.GeoSeries(geometry, index=frame.index, crs=crs))
    frame[ID] = ids
    _check_heights(path, frame)
    frame.attrs["source_crs"] = source_crs
    return frame


def write_buildings(buildings: geopandas.GeoDataFrame, path: Path) -> None:
    """Write the buildings table: GeoParquet, atomically."""
    with atomic_file(path) as temporary:
        buildings.to_parquet(temporary, index=False)


def load_buildings(path: Path) -> geopandas.GeoDataFrame:
    """Read a buildings table.

    Raises:
        InputError: the file is missing or is not a buildings table.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    try:
        frame = geopandas.read_parquet(path)
    except READ_FAULTS as error:
        raise InputError(f"{path}: not a buildings table ({_first_line(error)}).") from None
    if ID not in frame.columns or frame.crs is None:
        raise InputError(f"{path}: not a buildings table ({ID} or the CRS is missing).")
    return frame


def _read(path: Path) -> geopandas.GeoDataFrame:
    if not path.exists():
        raise InputError(f"{path}: no such file.")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty.")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            frame = geopandas.read_parquet(path) if path.suffix.lower() in PARQUET_SUFFIXES else _read_layer(path)
        for said in sorted({str(warning.message) for warning in caught}):
            log.warning("%s: %s", path, said)
    except READ_FAULTS as error:
        raise InputError(
            f"{path}: not readable as a file of footprints ({_first_line(error)}). GeoJSON, GeoPackage, Shapefile, "
            "zipped Shapefile and GeoParquet are."
        ) from None
    if not isinstance(frame, geopandas.GeoDataFrame) or frame.columns.duplicated().any():
        raise InputError(f"{path}: a table without geometry, or with two columns of one name; footprints are needed.")
    frame = frame.reset_index(drop=True)
    for name in frame.select_dtypes("object").columns:
        # Objects within a GeoJSON's properties have no type that a table could hold: they go on as the text they were.
        if frame[name].map(lambda value: isinstance(value, dict | list)).any():
            frame[name] = frame[name].map(json.dumps, na_action="ignore")
    return frame if frame.geometry.name == "geometry" else frame.rename_geometry("geometry")


def _read_layer(path: Path) -> pd.DataFrame:
    layers = [str(name) for name, kind in pyogrio.list_layers(path) if kind is not None]
    if len(layers) > 1:
        log.warning("%s: layers %s found, the first is read.", path, ", ".join(layers))
    # A ring that cannot even be made a polygon would stop the reader without a word on where: as None it gets a place.
    frame: pd.DataFrame = geopandas.read_file(path, layer=layers[0] if layers else None, on_invalid="ignore")
    return frame


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _identifiers(path: Path, frame: geopandas.GeoDataFrame, column: str) -> NDArray[np.object_]:
    if column not in frame.columns and column[:SHAPEFILE_NAME] in frame.columns:
        column = column[:SHAPEFILE_NAME]
    if column not in frame.columns:
        if column != ID:
            raise InputError(f"{path}: column {column} is missing; it has {', '.join(map(str, frame.columns))}.")
        log.info("%s: no column %s, buildings are named B0000001, B0000002, … in the file's order.", path, ID)
        return np.array([f"B{number:07d}" for number in range(1, len(frame) + 1)], object)
    values = frame[column]
    empty = np.asarray(values.isna() | (values.astype(str).str.strip() == ""))
    if empty.any():
        raise InputError(f"{path}: {name_features(empty)} without a value in column {column}.")
    if pd.api.types.is_float_dtype(values.dtype) and ((values % 1 == 0) & (values.abs() < MAX_WHOLE)).all():
        values = values.astype("int64")
    ids = np.array([str(value) for value in values], object)
    twice = np.asarray(pd.Series(ids).duplicated())
    if twice.any():
        named = ", ".join(pd.unique(ids[twice])[:NAMED])
        raise InputError(
            f"{path}: column {column} repeats {named} ({name_features(twice)}). Each id may stand there once."
        )
    return ids


def _check_crs(path: Path, frame: geopandas.GeoDataFrame) -> str:
    if frame.crs is None:
        raise InputError(
            f"{path}: the footprints have no CRS. Say which it is, for example with "
            "`ogr2ogr -a_srs EPSG:4326 OUT.gpkg IN`, or add the Shapefile's .prj."
        )
    name = frame.crs.to_string() if frame.crs.to_epsg() is None else f"EPSG:{frame.crs.to_epsg()}"
    west, south, east, north = frame.total_bounds
    if frame.crs.is_geographic and (west < -180 or east > 180 or south < -90 or north > 90):
        raise InputError(
            f"{path}: coordinates from {west:.10g}, {south:.10g} to {east:.10g}, {north:.10g} cannot be degrees of "
            f"longitude and latitude, as the CRS ({name}) says. A GeoJSON without `crs` is in degrees: reproject it, "
            "or name its CRS."
        )
    return name if len(name) < 40 else str(frame.crs.name)


def _check_heights(path: Path, frame: geopandas.GeoDataFrame) -> None:
    if HEIGHT not in frame.columns:
        return
    heights = pd.to_numeric(frame[HEIGHT], errors="coerce")
    bad = np.asarray((heights.isna() & frame[HEIGHT].notna()) | (heights < 0) | np.isinf(heights.astype(float)))
    if bad.any():
        found = frame[HEIGHT].iloc[int(np.argmax(bad))]
        named = name_features(bad, frame[ID].to_numpy())
        raise InputError(f"{path}: {named}: {HEIGHT} {found} found, metres from 0 are needed.")
    frame[HEIGHT] = heights.astype(float)
