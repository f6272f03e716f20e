"""Check, open and read a vector file by GDAL."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pyogrio
import pyproj
import shapely

from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.core.geopackage import fault_of_locks
from plumbline.sources.crs import GLOBE, is_local
from plumbline.sources.files.streams import CsvFile
from plumbline.sources.footprints.area import MARGIN_M, Area, Bounds
from plumbline.sources.footprints.city_models import (
    is_city_gml,
    is_city_json,
    read_city_gml,
    read_city_json,
)
from plumbline.sources.footprints.ids import mend_integers
from plumbline.sources.footprints.pages import read_page, warn_of_page, warn_of_request
from plumbline.sources.footprints.selection import (
    OSM_BUILDINGS,
    OSM_LAYER,
    choose_layers,
    is_openstreetmap,
    name_openstreetmap,
)
from plumbline.sources.footprints.shapefile import BYTES, PARTS, SHP, decode_texts, find_language
from plumbline.sources.footprints.source import (
    FILE_SUFFIXES,
    LINES,
    Piece,
    Source,
    are_degrees,
    assumes_crs,
    check_named_crs,
    find_pieces,
    find_source,
    is_folder_of_parts,
    is_read_as_one,
)
from plumbline.sources.footprints.tables import (
    FEATHER_SUFFIXES,
    has_outlines,
    read_csv,
    read_parquet,
    states_crs,
)

PARQUET_SUFFIXES = (".parquet", ".geoparquet")
VECTOR_SUFFIXES = (*FILE_SUFFIXES, *PARQUET_SUFFIXES, *FEATHER_SUFFIXES)
"""Suffixes of files that `read_vector` reads."""
PACKED_SUFFIXES = (".zip", ".gz")
UNKNOWN_FORMAT = "in no format that is known"
HIDDEN = "._"
"""First characters of names of files that Arrow passes over, as those of Spark and of macOS."""
FEATURE_ID = "id"
"""Column of the ids of a GeoJSON's features, as GDAL names it where they are texts."""
UNSUPPORTED = ("Geometry type is not supported", "Unknown WKB type")
"""Messages of pyogrio and GEOS about polyhedral surfaces and triangulated ones."""
OFFLINE = {"GML_DOWNLOAD_SCHEMA": "NO", "CPL_VSIL_GZIP_WRITE_PROPERTIES": "NO"}
"""Settings with which GDAL asks no server for a schema, and writes nothing beside a file."""
UNQUOTABLE = ('"', "\\", "\n")
"""Characters that a name in a command of GDAL cannot have."""
SAMPLE = 1000
"""Number of features by which degrees are distinguished from metres."""
READ_FAULTS = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,
    UnboundLocalError,  # pyogrio 0.13 on a CRS whose name is not in UTF-8
    shapely.errors.ShapelyError,
    pa.ArrowException,
)
"""Errors that GDAL, GEOS and Arrow raise, through geopandas, on damaged and foreign files."""


def read_vector(
    path: Path, layer: str | None = None, crs: str | None = None, area: Area | None = None
) -> geopandas.GeoDataFrame:
    """Read the features of a file, in its own CRS, geometry in the column `geometry`;
    nested JSON as text.

    Args:
        path: the file.
        layer: its name; see `choose_layers` for what is read without.
        crs: that of the coordinates, where the file does not state it.
        area: of a large file only the features that reach into it are read.

    Raises:
        InputError: the file is missing, empty, no vector file, a zip or gzip that is not
            safe to read, a table without geometry, a GeoJSON with a CRS that is not known,
            or has no such layer.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file.", key="file.missing")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty.", key="file.empty")
    area = area.of_file(path) if area is not None else None
    if _is_columnar(path):
        if layer is not None:
            raise InputError(
                f"{path}: no layer {layer}; a GeoParquet has no layers.", key="layer.missing"
            )
        frames = [_read_piece(Piece(path), Source(str(path), None), None, crs, area)]
    else:
        frames = [
            _read_piece(piece, find_source(*piece), layer, crs, area)
            for piece in find_pieces(path, layer)
        ]
    frame = concatenate_parts(path, frames)
    if area is not None:
        warn(
            "%s: too large to be read whole; the %d features that reach into the area of the "
            "points are read (%s).",
            path,
            len(frame),
            area,
            key="footprints.read_by_area",
        )
        if not len(frame):
            raise InputError(
                f"{path}: no footprint is within {MARGIN_M:.0f} m of the points ({area}). Is it "
                "of that place?",
                key="footprints.none_near_points",
            )
    return frame


def _read_piece(
    piece: Piece, source: Source, layer: str | None, crs: str | None, area: Area | None
) -> geopandas.GeoDataFrame:
    """Read one file of footprints."""
    path, ends = piece.path, source.ends
    if ends is not None and has_outlines(ends.start) and not ends.has_whole_outline:
        raise InputError(
            f"{path}: cut off: its last outline has no end. Download it again.", key="csv.cut_off"
        )
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            frame = _read_frame(path, source, layer, crs, area)
        for message in sorted(
            {
                str(warning.message)
                for warning in caught
                if not issubclass(warning.category, RuntimeWarning)
            }
        ):
            warn("%s: %s", path, message, key="footprints.reader_warning")
    except READ_FAULTS as error:
        raise _fault(path, error) from None
    if not isinstance(frame, geopandas.GeoDataFrame) or frame.columns.duplicated().any():
        raise InputError(
            f"{path}: a table without geometry, or with two columns of one name; footprints are "
            "needed. Points go to --points.",
            key="footprints.no_geometry",
        )
    if ends is not None:
        if ends.is_collection:
            check_named_crs(path, ends, frame.crs)
        warn_of_page(
            source.content or path, read_page(*ends), read=len(frame) if area is None else None
        )
        if source.content is not None and source.content.member is not None and area is None:
            warn_of_request(path, len(frame))
    frame = _set_crs(
        path, frame.reset_index(drop=True), crs, _format_of_default_crs(path, source, frame)
    )
    for name in [
        column
        for column, kind in frame.dtypes.items()
        if kind.kind == "O" and kind.name == "object"
    ]:
        # Objects within a GeoJSON's properties have no type that a table could hold: they go
        # on as the text they were.
        if frame[name].map(lambda value: isinstance(value, dict | list | np.ndarray)).any():
            frame[name] = [
                None if value is None else json.dumps(value, default=_to_json_value)
                for value in frame[name]
            ]
    return frame if frame.geometry.name == "geometry" else frame.rename_geometry("geometry")


def _fault(path: Path, error: Exception) -> InputError:
    """Return the error that states why a file cannot be read, and what to do."""
    suffix, reason = path.suffix.lower(), first_line_of(error)
    if (fault := fault_of_locks(error)) is not None:
        return InputError(
            f"{path}: {fault}. Copy it to a local folder, and give the copy.", key="layer.locked"
        )
    if suffix in PARTS:
        return InputError(
            f"{path}: a part of a Shapefile, which has no outlines. Give its {SHP}, with this "
            "file beside it.",
            key="shapefile.part",
        )
    if reason == UNKNOWN_FORMAT and suffix not in (*VECTOR_SUFFIXES, *PACKED_SUFFIXES):
        return InputError(
            f"{path}: no file of footprints: {reason}. Give the buildings' outlines as GeoJSON, "
            "GeoPackage, Shapefile (.shp), GeoParquet or another vector file.",
            key="footprints.unknown_format",
        )
    return InputError(
        f"{path}: not readable as a file of footprints ({reason}). If it is GeoJSON, GeoPackage, "
        "Shapefile or GeoParquet, it is damaged, cut off or not in the encoding that it states. "
        "Download it again.",
        key="footprints.unreadable",
    )


def concatenate_parts(path: Path, frames: list[geopandas.GeoDataFrame]) -> geopandas.GeoDataFrame:
    """Return the parts of footprints as one table, in the CRS of the first.

    Raises:
        InputError: some have a CRS, others none.
    """
    if len(frames) == 1:
        return frames[0]
    crs = frames[0].crs
    if any((frame.crs is None) != (crs is None) for frame in frames):
        raise InputError(
            f"{path}: some of its parts state a CRS, others none. Give them in one CRS.",
            key="footprints.crs_of_some_parts",
        )
    return pd.concat(
        [frame if frame.crs == crs else frame.to_crs(crs) for frame in frames], ignore_index=True
    )


def _read_frame(
    path: Path, source: Source, layer: str | None, crs: str | None, area: Area | None
) -> pd.DataFrame:
    if source.ends is None and _is_columnar(path):
        return read_parquet(path, crs, area)
    if (read := _find_reader(source)) is not None and source.content is not None:
        return read(source.content, crs, area)
    return _read_by_gdal(path, source, layer, crs, area)


def _to_json_value(value: Any) -> Any:
    """Convert an array or a time within nested values to a JSON value."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def first_line_of(error: Exception) -> str:
    """Return the first line of an error's message, at most 200 characters."""
    if "not recognized as being in a supported file format" in str(
        error
    ):  # GDAL advises to name a driver
        return UNKNOWN_FORMAT
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def is_folder_of_footprints(path: Path) -> bool:
    """Return whether `read_vector` reads a folder as one: a geodatabase, a Shapefile, or parts."""
    return path.is_dir() and (
        is_read_as_one(path) or _is_columnar(path) or is_folder_of_parts(path)
    )


def _is_columnar(path: Path) -> bool:
    """Return whether a path is a Parquet, a folder of them, or a Feather."""
    if path.is_dir():
        return any(
            file.suffix.lower() in PARQUET_SUFFIXES and file.name[0] not in HIDDEN
            for file in path.rglob("*")
        )
    return path.suffix.lower() in (*PARQUET_SUFFIXES, *FEATHER_SUFFIXES)


def _read_by_gdal(
    path: Path, source: Source, layer: str | None, crs: str | None, area: Area | None
) -> pd.DataFrame:
    pyogrio.set_gdal_config_options(OFFLINE)
    notes = path.with_suffix(".gfs")  # in which GDAL writes what it finds out about a GML
    had_notes = notes.exists()
    try:
        return _read_features(path, source, layer, crs, area)
    except READ_FAULTS as error:
        if not any(text in str(error) for text in UNSUPPORTED) or any(
            sign in source.name for sign in UNQUOTABLE
        ):
            raise
        with TemporaryDirectory() as folder:
            # GDAL makes polygons of the faces on the way (GDAL 3.11 and later).
            command = (
                f'gdal vector pipeline ! read "{source.name}" ! set-geom-type '
                "--geometry-type MULTIPOLYGONZ"
            )
            pipeline = Path(folder, f"{path.stem}.gdalg.json")
            pipeline.write_text(
                json.dumps({"type": "gdal_streamed_alg", "command_line": command}), encoding="utf-8"
            )
            try:
                return _read_features(
                    path, source._replace(name=str(pipeline), ends=None), layer, crs, area
                )
            except READ_FAULTS:
                raise error from None
    finally:
        if not had_notes and notes.exists():  # on a read-only disk, even to ask for it is an error
            notes.unlink(missing_ok=True)


def _read_features(
    path: Path, source: Source, layer: str | None, crs: str | None, area: Area | None
) -> pd.DataFrame:
    collection = source.ends is not None and source.ends.is_collection
    # A GeoJSON has one layer; to list it, all of it would be read once more.
    frames = []
    for chosen in [None] if collection and layer is None else _chosen_layers(path, source, layer):
        if path.is_dir() and chosen is not None and (shape := path / f"{chosen}{SHP}").is_file():
            source = source._replace(language=find_language(shape))
        bounds = None
        if area is not None and (stated := _crs_of(source, chosen, crs)) is not None:
            bounds = area.bounds_in(pyproj.CRS(stated))
        frames.append(_read_layer(path, source, chosen, collection, bounds))
    return concatenate_parts(path, frames)


def _find_reader(
    source: Source,
) -> Callable[[CsvFile, str | None, Area | None], geopandas.GeoDataFrame] | None:
    """Return the reader for a file that GDAL cannot read as buildings; None for other files."""
    start = "" if source.ends is None else source.ends.start
    if is_city_json(start):
        return read_city_json
    if is_city_gml(start):
        return read_city_gml
    return partial(read_csv, start) if has_outlines(start) else None


def _chosen_layers(path: Path, source: Source, wanted: str | None) -> list[str | None]:
    if wanted is None and source.ends is not None and is_openstreetmap(source.ends.start):
        return [OSM_LAYER]
    if source.content is not None and source.content.member is not None and wanted is not None:
        wanted = (
            None
            if PurePosixPath(source.content.member).stem.casefold() == wanted.casefold()
            else wanted
        )
    return choose_layers(path, source.name, wanted)


def _format_of_default_crs(path: Path, source: Source, frame: geopandas.GeoDataFrame) -> str | None:
    """Return the format that gives the frame a CRS by default; None if the file states the
    CRS, or has none."""
    if source.ends is None:
        is_columnar = _is_columnar(path) and path.suffix.lower() not in FEATHER_SUFFIXES
        return "GeoParquet" if is_columnar and not states_crs(path) else None
    is_default = frame.crs == GLOBE and _find_reader(source) is None and assumes_crs(source.ends)
    return "GeoJSON" if is_default else None


def _set_crs(
    path: Path, frame: geopandas.GeoDataFrame, stated: str | None, format_: str | None
) -> geopandas.GeoDataFrame:
    """Set the CRS that the user states if the file lacks one; see `_format_of_default_crs`."""
    is_unknown = is_local(frame.crs) and (stated is not None or not frame.crs.is_geographic)
    if is_unknown or (format_ and not are_degrees(frame.geometry.to_numpy()[:SAMPLE])):
        frame = frame.set_crs(None, allow_override=True)
    if stated is None or frame.crs == stated:
        return frame
    if frame.crs is None:
        return frame.set_crs(stated)
    reason = (
        f"coordinates in a {format_} without `crs` are degrees of" if format_ else "the file states"
    )
    warn(
        "%s: crs %s of ingest.footprints does not count, %s %s.",
        path,
        stated,
        reason,
        frame.crs.name,
        key="footprints.unused_crs",
    )
    return frame


def _crs_of(source: Source, layer: str | None, stated: str | None) -> str | None:
    """Return the CRS that the coordinates are in, by the file or by its user."""
    if assumes_crs(source.ends):
        first = geopandas.read_file(
            source.name, layer=layer, max_features=SAMPLE, on_invalid="ignore"
        )
        if not are_degrees(first.geometry.to_numpy()):
            return stated
    crs: str | None = pyogrio.read_info(source.name, layer=layer)["crs"]
    return stated if crs is None or is_local(pyproj.CRS(crs)) else crs


def _read_layer(
    path: Path, source: Source, layer: str | None, with_ids: bool, bounds: Bounds | None
) -> pd.DataFrame:
    # GDAL guesses dates from strings in GeoJSON, and writes them in its own way: a building
    # may be called 2024-01-01.
    options: dict[str, Any] = {"datetime_as_string": source.name.startswith(LINES)}
    if with_ids:
        options = {"DATE_AS_STRING": "YES"}
    is_osm = layer == OSM_LAYER and source.ends is not None and is_openstreetmap(source.ends.start)
    if is_osm:
        options["where"] = OSM_BUILDINGS
    encoding = None if source.language is None else BYTES
    # A ring that cannot even be made a polygon would stop the reader without a word on where:
    # as None it gets a place.
    frame: pd.DataFrame = geopandas.read_file(
        source.name,
        layer=layer,
        encoding=encoding,
        on_invalid="ignore",
        fid_as_index=with_ids,
        bbox=bounds,
        **options,
    )
    mend_integers(
        frame,
        lambda names: pyogrio.read_arrow(
            source.name,
            layer=layer,
            columns=names,
            read_geometry=False,
            bbox=bounds,
            encoding=encoding,
        )[1],
    )
    if (
        source.language is not None
    ):  # last: until here columns have the names by which GDAL knows them
        decoded = decode_texts(path, frame, source.language)
        if decoded is None:
            return _read_layer(path, source._replace(language=None), layer, with_ids, bounds)
        frame = decoded
    if is_osm:
        return name_openstreetmap(frame)
    ids = frame.index.to_numpy()
    # Where a feature has no id, or that of another, GDAL gives it its place.
    if (
        with_ids
        and FEATURE_ID not in frame.columns
        and len(ids)
        and not (ids == np.arange(len(ids))).any()
    ):
        frame.insert(0, FEATURE_ID, ids)
    return frame
