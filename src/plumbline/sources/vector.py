"""Opening a file of footprints, of any vector format: a table with geometry and CRS, or a refusal."""

from __future__ import annotations

import json
import warnings
from pathlib import Path, PurePosixPath

import geopandas
import pandas as pd
import pyarrow as pa
import pyogrio
import shapely

from plumbline.console import log
from plumbline.errors import InputError
from plumbline.sources.archive import ZIP_START, check_members
from plumbline.sources.geojson import check_named_crs, read_ends
from plumbline.sources.sieve import NAMED

PARQUET_SUFFIXES = (".parquet", ".geoparquet")
ZIPPED_SUFFIXES = (".gpkg", ".shp", ".geojson", ".fgb", ".json", ".gml", ".kml")
"""Of files to look for in a zip, the likelier first."""
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


def read_vector(path: Path) -> geopandas.GeoDataFrame:
    """The features of a file, in its own CRS, geometry in the column `geometry`; nested JSON as text.

    Raises:
        InputError: the file is missing, empty, no vector file, a zip that is not safe to read, a table without
            geometry, or a GeoJSON with a CRS that is not known.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file.")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty.")
    member = _member(path)
    source = str(path) if member is None else f"/vsizip/{{{path.resolve()}}}/{member}"
    ends = read_ends(path, member) if path.is_file() else None
    collection = ends is not None and ends.is_collection
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if path.suffix.lower() in PARQUET_SUFFIXES:
                frame = geopandas.read_parquet(path)
            else:
                # A GeoJSON has one layer; to list it, all of it would be read once more.
                frame = _read_layer(path, source, only=collection)
        said = {str(warning.message) for warning in caught if not issubclass(warning.category, RuntimeWarning)}
        for message in sorted(said):
            log.warning("%s: %s", path, message)
    except READ_FAULTS as error:
        raise InputError(
            f"{path}: not readable as a file of footprints ({first_line(error)}). GeoJSON, GeoPackage, Shapefile, "
            "zipped Shapefile and GeoParquet are."
        ) from None
    if not isinstance(frame, geopandas.GeoDataFrame) or frame.columns.duplicated().any():
        raise InputError(f"{path}: a table without geometry, or with two columns of one name; footprints are needed.")
    if ends is not None and collection:
        check_named_crs(path, ends, frame.crs)
    frame = frame.reset_index(drop=True)
    for name in frame.select_dtypes("object").columns:
        # Objects within a GeoJSON's properties have no type that a table could hold: they go on as the text they were.
        if frame[name].map(lambda value: isinstance(value, dict | list)).any():
            frame[name] = frame[name].map(json.dumps, na_action="ignore")
    return frame if frame.geometry.name == "geometry" else frame.rename_geometry("geometry")


def first_line(error: Exception) -> str:
    """The first line of an error's message, at most 200 characters."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _member(path: Path) -> str | None:
    """The file of footprints in a zip, in whatever folder it is there; None for other files."""
    if not path.is_file() or path.suffix.lower() in PARQUET_SUFFIXES:
        return None
    with path.open("rb") as stream:
        if stream.read(len(ZIP_START)) != ZIP_START:
            return None
    members = sorted(name for name in check_members(path) if PurePosixPath(name).suffix.lower() in ZIPPED_SUFFIXES)
    if not members:
        raise InputError(f"{path}: no file of footprints ({', '.join(ZIPPED_SUFFIXES)}) in the zip.")
    kinds = [PurePosixPath(name).suffix.lower() for name in members]
    kind = min(kinds, key=ZIPPED_SUFFIXES.index)
    layers = [name for name, suffix in zip(members, kinds, strict=True) if suffix == kind]
    if len(layers) > 1:
        log.warning("%s: %s found in it, the first is read.", path, ", ".join(layers[:NAMED]))
    return layers[0]


def _read_layer(path: Path, source: str, only: bool) -> pd.DataFrame:
    layers = [] if only else [str(name) for name, kind in pyogrio.list_layers(source) if kind is not None]
    if len(layers) > 1:
        log.warning("%s: layers %s found, the first is read.", path, ", ".join(layers))
    # A ring that cannot even be made a polygon would stop the reader without a word on where: as None it gets a place.
    frame: pd.DataFrame = geopandas.read_file(source, layer=layers[0] if layers else None, on_invalid="ignore")
    return frame
