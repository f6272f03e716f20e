"""Read the layers of footprints in a file by GDAL."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
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
from numpy.typing import NDArray

from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.core.geopackage import fault_of_locks
from plumbline.sources.crs import is_local
from plumbline.sources.footprints.area import Area, Bounds, touching
from plumbline.sources.footprints.ids import MAX_WHOLE
from plumbline.sources.footprints.shapefile import (
    BYTES,
    PARTS,
    SHP,
    check_whole,
    decode_texts,
    find_language,
    has_stale_index,
)
from plumbline.sources.footprints.source import (
    LINES,
    VECTOR_SUFFIXES,
    Piece,
    are_parts,
    name_alike,
)
from plumbline.sources.globe import are_degrees

UNKNOWN_FORMAT = "in no format that is known"
PACKED_SUFFIXES = (".zip", ".gz")
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
NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
POLYGONAL = ("polygon", "surface", "tin")
ANY = ("unknown", "collection")
"""Kinds of geometry, as GDAL names them, that are or may be polygons."""
KML = (".kml", ".kmz")
"""Suffixes of KML, of which the layers are the folders of one drawing."""
OSM_LAYER = "multipolygons"
"""Layer into which GDAL puts closed ways and relations of OpenStreetMap."""
OSM_BUILDINGS = "building IS NOT NULL AND building <> 'no'"
OSM_FILE = re.compile(r"(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<osm[\s>]", re.DOTALL)
OSM_START, OSM_START_WITHIN = "OSMHeader", 64
N_TRIGGERS = 4
"""Number of triggers of those counted below that keep an index, in any version of GeoPackage."""
INDEX_QUERY = """SELECT (SELECT count(*) FROM "{index}_rowid") AS n_indexed,
(SELECT count(*) FROM "{table}" WHERE "{column}" NOT NULL AND NOT ST_IsEmpty("{column}")) AS
n_drawn,
(SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '{table}' AND
sql LIKE '%{index}%' AND (name GLOB '*_insert' OR name GLOB '*_delete' OR name GLOB '*_update[16]'
OR name GLOB '*_update[35]')) AS n_triggers"""
"""Query of the numbers of features in an index and in its table, and of triggers."""
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


def read_layers(piece: Piece, crs: str | None, area: Area | None) -> pd.DataFrame:
    """Read the chosen layers of a file as one table.

    Args:
        piece: the file.
        crs: CRS that the user states, for a file that states none.
        area: keeps only the features that reach into it.

    Raises:
        InputError: as `choose_layers`; or a Shapefile that is not whole.
        READ_FAULTS: the file is damaged, or of no format that GDAL reads.
    """
    language = _find_language(piece)
    pyogrio.set_gdal_config_options(OFFLINE)
    notes = piece.path.with_suffix(".gfs")  # in which GDAL writes what it finds out about a GML
    had_notes = notes.exists()
    try:
        return _read_chosen(piece, language, crs, area)
    except READ_FAULTS as error:
        if not any(text in str(error) for text in UNSUPPORTED) or any(
            sign in piece.name for sign in UNQUOTABLE
        ):
            raise
        with TemporaryDirectory() as folder:
            # GDAL makes polygons of the faces on the way (GDAL 3.11 and later).
            command = (
                f'gdal vector pipeline ! read "{piece.name}" ! set-geom-type '
                "--geometry-type MULTIPOLYGONZ"
            )
            pipeline = Path(folder, f"{piece.path.stem}.gdalg.json")
            pipeline.write_text(
                json.dumps({"type": "gdal_streamed_alg", "command_line": command}), encoding="utf-8"
            )
            try:
                return _read_chosen(
                    piece._replace(name=str(pipeline), ends=None), language, crs, area
                )
            except READ_FAULTS:
                raise error from None
    finally:
        if not had_notes and notes.exists():  # on a read-only disk, even to ask for it is an error
            notes.unlink(missing_ok=True)


def choose_layers(path: Path, source: str, wanted: str | None = None) -> list[str | None]:
    """Choose the wanted layer; else the only one of polygons, or the only one of these with
    a name like footprints.

    All layers of polygons are chosen if they are the folders of a KML, or numbered parts.

    Args:
        path: for messages.
        source: what GDAL opens.
        wanted: name, in any case of letters if it is clear then.

    Raises:
        InputError: there is no such layer, or several that may be meant; the message names them.
    """
    kinds = {
        str(name): str(kind).lower()
        for name, kind in pyogrio.list_layers(source)
        if kind is not None
    }
    listed = ", ".join(f"{name} ({kind})" for name, kind in kinds.items()) or "none with a geometry"
    if wanted is not None:
        alike = (
            [wanted]
            if wanted in kinds
            else [name for name in kinds if name.casefold() == wanted.casefold()]
        )
        if len(alike) != 1:
            raise InputError(f"{path}: no layer {wanted}; it has {listed}.", key="layer.missing")
        return [*alike]
    if len(kinds) < 2:
        return [next(iter(kinds), None)]
    likely = [name for name, kind in kinds.items() if any(word in kind for word in POLYGONAL)]
    likely = (
        likely
        or [name for name, kind in kinds.items() if any(word in kind for word in ANY)]
        or list(kinds)
    )
    named = name_alike(likely)
    if len(likely) > 1 and len(named) != 1:
        if PurePosixPath(source).suffix.lower() in KML or are_parts(likely):
            warn(
                "%s: layers %s found; all are read. `--layer` names one to read alone.",
                path,
                listed,
                key="layer.all_read",
            )
            return [*sorted(likely)]
        raise InputError(
            f"{path}: layers {listed} found, and any may hold the footprints. Name one "
            "(`--layer`, or ingest.footprints in the parameters file), or give a file with one "
            "layer.",
            key="layer.ambiguous",
        )
    chosen = (likely if len(likely) == 1 else named)[0]
    warn("%s: layers %s found; %s is read.", path, listed, chosen, key="layer.chosen")
    return [chosen]


def mend_integers(frame: pd.DataFrame, read: Callable[[list[str]], pa.Table]) -> None:
    """Restore integers, in place, that are too large for the floats that pandas makes of
    columns with gaps.

    Args:
        frame: as read.
        read: gives some of its columns as the file has them, in the order of its rows.
    """
    if frame.columns.duplicated().any():
        return
    floats = frame.select_dtypes("float64")
    suspect = [
        str(name)
        for name in floats
        if floats[name].isna().any() and (floats[name].abs() >= MAX_WHOLE).any()
    ]
    table = read(suspect) if suspect else pa.table({})
    for name in suspect:
        column = table[name]
        if column.type in NULLABLE:
            frame[name] = column.to_pandas(types_mapper=NULLABLE.get).array


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


def make_fault(path: Path, error: Exception) -> InputError:
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


def first_line_of(error: Exception) -> str:
    """Return the first line of an error's message, at most 200 characters."""
    if "not recognized as being in a supported file format" in str(
        error
    ):  # GDAL advises to name a driver
        return UNKNOWN_FORMAT
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _is_openstreetmap(start: str) -> bool:
    """Return whether a file with this beginning is OpenStreetMap's own, as XML or PBF."""
    return bool(OSM_FILE.match(start)) or OSM_START in start[:OSM_START_WITHIN]


def _find_language(piece: Piece) -> int | None:
    """Return the language driver of a Shapefile, which has to be whole; None for other files,
    and for a folder of several."""
    shapes = [piece.path]
    if piece.path.is_dir():
        shapes = [file for file in piece.path.glob("[!.]*") if file.suffix.lower() == SHP]
    if len(shapes) != 1:
        return None
    member = None if piece.ends is None else piece.ends.content.member
    check_whole(shapes[0], member)
    return find_language(shapes[0], member)


def _read_chosen(
    piece: Piece, language: int | None, crs: str | None, area: Area | None
) -> pd.DataFrame:
    """Choose the layers of a file, read them in its Shapefile's `language`, and join them."""
    path, ends = piece.path, piece.ends
    # A GeoJSON has one layer; to list it, all of it would be read once more.
    layers: list[str | None] = [None]
    if piece.layer is None and ends is not None and _is_openstreetmap(ends.start):
        layers = [OSM_LAYER]
    elif piece.layer is not None or ends is None or not ends.is_collection:
        layers = choose_layers(path, piece.name, piece.layer)
    frames = []
    for layer in layers:
        bounds = None
        if area is not None and (stated := _find_crs(piece, layer, crs)) is not None:
            bounds = area.bounds_in(pyproj.CRS(stated))
        if path.is_dir() and layer is not None and (shape := path / f"{layer}{SHP}").is_file():
            language = find_language(shape)
        frames.append(_read_layer(piece, layer, language, bounds))
    return concatenate_parts(path, frames)


def _find_crs(piece: Piece, layer: str | None, stated: str | None) -> str | None:
    """Return the CRS that the coordinates are in, by the file or by its user."""
    if piece.ends is not None and piece.ends.assumes_crs:
        first = geopandas.read_file(
            piece.name, layer=layer, max_features=SAMPLE, on_invalid="ignore"
        )
        if not are_degrees(first.geometry.to_numpy()):
            return stated
    crs: str | None = pyogrio.read_info(piece.name, layer=layer)["crs"]
    return stated if crs is None or is_local(pyproj.CRS(crs)) else crs


def _read_layer(
    piece: Piece, layer: str | None, language: int | None, bounds: Bounds | None
) -> pd.DataFrame:
    # GDAL guesses dates from strings in GeoJSON, and writes them in its own way: a building
    # may be called 2024-01-01.
    options: dict[str, Any] = {"datetime_as_string": piece.name.startswith(LINES)}
    rows: NDArray[np.intp] | None = None
    if bounds is not None and _has_stale_index(piece, layer):
        fids, boxes = pyogrio.read_bounds(piece.name, layer=layer)
        rows = np.flatnonzero(touching(shapely.box(*boxes), bounds))
        options["fids"], bounds = fids[rows], None
    has_ids = piece.ends is not None and piece.ends.is_collection
    if has_ids:
        options = {"DATE_AS_STRING": "YES"}
    is_osm = layer == OSM_LAYER and piece.ends is not None and _is_openstreetmap(piece.ends.start)
    if is_osm:
        options["where"] = OSM_BUILDINGS
    encoding = None if language is None else BYTES
    # A ring that cannot even be made a polygon would stop the reader without a word on where:
    # as None it gets a place.
    frame: pd.DataFrame = geopandas.read_file(
        piece.name,
        layer=layer,
        encoding=encoding,
        on_invalid="ignore",
        fid_as_index=has_ids,
        bbox=bounds,
        **options,
    )

    def read_again(names: list[str]) -> pa.Table:
        table: pa.Table = pyogrio.read_arrow(
            piece.name,
            layer=layer,
            columns=names,
            read_geometry=False,
            bbox=bounds,
            encoding=encoding,
        )[1]
        return table if rows is None else table.take(rows)

    mend_integers(frame, read_again)
    if is_osm:
        return _name_openstreetmap(frame)
    if language is not None:  # last: until here columns have the names by which GDAL knows them
        decoded = decode_texts(piece.path, frame, language)
        if decoded is None:
            return _read_layer(piece, layer, None, bounds)
        frame = decoded
    ids = frame.index.to_numpy()
    # Where a feature has no id, or that of another, GDAL gives it its place.
    if (
        has_ids
        and FEATURE_ID not in frame.columns
        and len(ids)
        and not (ids == np.arange(len(ids))).any()
    ):
        frame.insert(0, FEATURE_ID, ids)
    return frame


def _has_stale_index(piece: Piece, layer: str | None) -> bool:
    """Return whether a layer has a spatial index that was not kept with its data; warn of it.

    With such an index, GDAL silently reads other features than those of an area.
    """
    about = pyogrio.read_info(piece.name, layer=layer)
    table, column, is_stale = about["layer_name"], about["geometry_name"], False
    if about["driver"] == "GPKG":
        query = INDEX_QUERY.format(index=f"rtree_{table}_{column}", table=table, column=column)
        with suppress(*READ_FAULTS):  # raised where the layer has no index
            n = pyogrio.read_dataframe(piece.name, sql=query, read_geometry=False).iloc[0]
            is_stale = n["n_indexed"] != n["n_drawn"] or n["n_triggers"] < N_TRIGGERS
    elif about["driver"] == "ESRI Shapefile":
        shape = piece.path / f"{table}{SHP}" if piece.path.is_dir() else piece.path
        is_stale = has_stale_index(shape, piece.ends and piece.ends.content.member)
    if is_stale:
        warn(
            "%s: the spatial index of layer %s is not used, as it was not kept with the data. Save "
            "the layer again, or other programs may not show all of it.",
            piece.path,
            table,
            key="footprints.stale_index",
        )
    return bool(is_stale)


def _name_openstreetmap(frame: pd.DataFrame) -> pd.DataFrame:
    """Write ids to `@id` as OpenStreetMap does (way/12, relation/7): a way and a relation
    may share a number."""
    way = "way/" + frame["osm_way_id"].astype(str)
    frame.insert(
        0, "@id", way.where(frame["osm_way_id"].notna(), "relation/" + frame["osm_id"].astype(str))
    )
    return frame
