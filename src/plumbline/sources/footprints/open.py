"""Check, open and read a vector file by GDAL."""

from __future__ import annotations

import gzip
import io
import json
import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pyogrio
import pyproj
import shapely

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.sources.files.csv_lines import WESTERN
from plumbline.sources.files.opened import (
    GZIP_START,
    MAX_MEMBER_BYTES,
    MAX_VECTOR_RATIO,
    RATIO_FREE_BYTES,
    ZIP_START,
    CsvFile,
    Unpacked,
    gdal_name,
    vector_members,
    zip_members,
)
from plumbline.sources.footprints.area import MARGIN_M, Area
from plumbline.sources.footprints.city_models import is_city_gml, is_city_json, read_city_gml, read_city_json
from plumbline.sources.footprints.ids import mend_integers
from plumbline.sources.footprints.selection import (
    NAMED,
    OSM_BUILDINGS,
    OSM_LAYER,
    choose_layer,
    first_of,
    is_openstreetmap,
    name_openstreetmap,
)
from plumbline.sources.footprints.shapefile import SHP, STATED, Texts, check_whole, text_encoding
from plumbline.sources.footprints.tables import FEATHER_SUFFIXES, has_outlines, read_csv, read_parquet

LOOKED_AT = 2**16
"""`crs` stands before the features, or after them: in the first or last so many bytes."""
CHUNK_BYTES = 2**22
SEPARATOR = "\x1e\r\n \t"
"""What may stand before a feature: white space, and the separator of RFC 8142."""
CRS_MEMBER = re.compile(r'"crs"\s*:')


class Ends(NamedTuple):
    """Beginning and end of a file, as text."""

    start: str
    end: str

    @property
    def is_collection(self) -> bool:
        """Return whether this is a GeoJSON feature collection."""
        return self.start[:1] == "{" and '"FeatureCollection"' in self.start + self.end

    @property
    def is_lines(self) -> bool:
        """Return whether each line is a feature (GeoJSONL, GeoJSON text sequences)."""
        first, _, rest = self.start.lstrip(SEPARATOR).partition("\n")
        if not rest.lstrip(SEPARATOR).startswith("{"):
            return False
        try:
            feature = json.loads(first)
        except ValueError:
            return False
        return isinstance(feature, dict) and feature.get("type") == "Feature"


def read_ends(path: Path, member: str | None = None) -> Ends:
    """Read the beginning and the end of a file, or of a member of a zip.

    Raises:
        InputError: the member cannot be unpacked.
    """
    with CsvFile(path, member).open() as stream:
        if member is not None:
            return ends_of(stream)
        first = stream.read(LOOKED_AT)
        stream.seek(max(path.stat().st_size - LOOKED_AT, 0))
        return _ends(first, stream.read())


def ends_of(stream: IO[bytes] | io.RawIOBase) -> Ends:
    """Read the beginning and the end of a stream that can only be read forwards."""
    first = b""
    while len(first) < LOOKED_AT and (chunk := stream.read(LOOKED_AT - len(first))):
        first += chunk
    last = first
    while chunk := stream.read(CHUNK_BYTES):
        last = (last + chunk)[-LOOKED_AT:]
    return _ends(first, last)


def _ends(first: bytes, last: bytes) -> Ends:
    return Ends(first.decode("utf-8-sig", "replace").lstrip(), last.decode("utf-8", "replace").strip())


def check_named_crs(path: Path, ends: Ends, taken: pyproj.CRS | None) -> None:
    """Refuse a GeoJSON if its `crs` differs from `taken`, the CRS that GDAL reads.

    Raises:
        InputError: the `crs` is not understood; the message has what stands there.
    """
    found = _named_crs(ends)
    if found is None:
        return
    name = _name(found)
    try:
        named = None if name is None else pyproj.CRS.from_user_input(name)
    except pyproj.exceptions.CRSError:
        named = None
    if named is None or taken is None or named.is_projected != taken.is_projected:
        raise InputError(
            f"{path}: crs {json.dumps(found)[:120]} found, which is not known. Give it a name such as "
            '{"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::3035"}}, or remove it where the '
            "coordinates are degrees of longitude and latitude (WGS 84)."
        )


def _named_crs(ends: Ends) -> Any:
    """Return the collection's own `crs` member; None without one.

    It is the collection's own, and not that of something within it, if what is before it or after it is all of an
    object's rest.
    """
    for match in CRS_MEMBER.finditer(ends.start):
        if _is_json(ends.start[: match.start()].rstrip().removesuffix(",") + "}"):
            try:
                return json.JSONDecoder().raw_decode(ends.start[match.end() :].lstrip())[0]
            except ValueError:
                return ends.start[match.end() :][:80]
    for match in CRS_MEMBER.finditer(ends.end):
        if _is_json("{" + ends.end[match.start() :]):
            return json.loads("{" + ends.end[match.start() :])["crs"]
    return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _name(crs: Any) -> str | None:
    properties = crs.get("properties") if isinstance(crs, dict) and crs.get("type") == "name" else None
    name = properties.get("name") if isinstance(properties, dict) else None
    return name if isinstance(name, str) and name else None


GEODATABASE, GDBTABLE = ".gdb", ".gdbtable"
ZIPPED_SUFFIXES = (
    ".gpkg",
    ".shp",
    GDBTABLE,
    ".geojson",
    ".geojsonl",
    ".geojsons",
    ".fgb",
    ".json",
    ".jsonl",
    ".gml",
    ".tab",
    ".mif",
    ".kml",
    ".csv",
    ".xml",
)
"""Of files to look for in a zip, the likelier first; .xml often describes another."""
UNREAD_PACKINGS = {
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!": "RAR",
}
"""How a file begins -> what has packed it."""
LONGEST_START = 8
OF_TILES = "map tiles, which cut and simplify buildings. Give the data that the tiles were made from."
NO_FOOTPRINTS = {
    re.compile(r'<OGR(?:VRT|WFS|OAPIF|CSW)DataSource|"gdal_streamed_alg"'): (
        "it holds no footprints, but points at other files or servers, which are not opened from within a file. Give "
        "the file that it points at."
    ),
    re.compile(r'"osm3s"\s*:'): (
        "an answer of Overpass as JSON, which has no outlines. Ask for `[out:xml]` with `(._;>;); out body;`, or make "
        "a GeoJSON of it (overpass-turbo: Export)."
    ),
    re.compile(r"<(?:\w+:)?(?:Service)?ExceptionReport"): (
        "a server's error message instead of footprints; open it in an editor to read it. Ask the server anew."
    ),
    re.compile(r"\A\s*(?:<!doctype html|<html)", re.IGNORECASE): (
        "a web page instead of footprints, such as one that asks to log in. Download the file itself."
    ),
    re.compile(r"\Aversion https://git-lfs"): "a pointer of Git LFS instead of the file. Run `git lfs pull`.",
    re.compile(r"\APMTiles"): OF_TILES,
    re.compile(r"\A(?:\ufffd\ufffd)?\0?[{<\[]\0"): "text in UTF-16, as PowerShell writes it. Save it as UTF-8.",
}
"""What a file has at its start that holds no footprints -> what it is, and what to do."""
CUT = (re.compile(r'"exceededTransferLimit"\s*:\s*true'), re.compile(r'"next"\s*:\s*"https?://'))
"""How servers (ArcGIS, Django REST) say that an answer is one page of several."""
TILES = ".mbtiles"
LINES = "GeoJSONSeq:"
"""Tells GDAL that each line is a feature, whatever the name says: Microsoft's footprints are named `.csv.gz`."""


class Source(NamedTuple):
    """Name for GDAL to open, with the file's beginning and end; None for a folder or an unread file."""

    name: str
    ends: Ends | None
    texts: Texts = STATED
    """How the texts of a Shapefile are read."""
    content: CsvFile | None = None
    """What gives its bytes; None of a folder."""


def find_source(path: Path) -> Source:
    """Find the file of footprints in a path: the file itself, or one in a zip or folder.

    Raises:
        InputError: a zip or gzip that is damaged, not safe to read, or without footprints; a Shapefile that is not
            whole.
    """
    if path.is_dir() and len(shapes := [one for one in path.iterdir() if one.suffix.lower() == SHP]) == 1:
        check_whole(shapes[0])
        return Source(str(path), None, text_encoding(shapes[0]))
    if not path.is_file():
        return Source(str(path), None)
    if path.suffix.lower() == TILES:
        raise InputError(f"{path}: {OF_TILES}")
    with path.open("rb") as stream:
        start = stream.read(LONGEST_START)
    for found, packing in UNREAD_PACKINGS.items():
        if start.startswith(found):
            raise InputError(f"{path}: packed by {packing}, which is not read. Unpack it, and give the file in it.")
    if start.startswith(ZIP_START):
        member = _member(path)
        if is_geodatabase(member):
            return Source(gdal_name(path, member).rstrip("/."), None)
        check_whole(path, member)
        return _source(
            gdal_name(path, member), read_ends(path, member), text_encoding(path, member), CsvFile(path, member)
        )
    if start.startswith(GZIP_START):
        return _source(f"/vsigzip/{path.resolve()}", _gzip_ends(path), content=CsvFile(path, gzipped=True))
    check_whole(path)
    return _source(str(path), read_ends(path), text_encoding(path), CsvFile(path))


def _source(name: str, ends: Ends, texts: Texts = STATED, content: CsvFile | None = None) -> Source:
    for sign, found in NO_FOOTPRINTS.items():
        if content is not None and sign.search(ends.start):
            raise InputError(f"{content}: {found}")
    if content is not None and any(cut.search(ends.start + ends.end) for cut in CUT):
        log.warning(
            "%s: a server's answer that says it is not complete: further buildings are missing. Ask for the rest in "
            "pages, or download the whole file.",
            content,
        )
    return Source(f"{LINES}{name}" if ends.is_lines else name, ends, texts, content)


def is_geodatabase(member: str) -> bool:
    """Return whether a name in a zip is the folder of a file geodatabase (.gdb), or the zip itself is one."""
    return member == "." or PurePosixPath(member).suffix.lower() == GEODATABASE


def _member(path: Path) -> str:
    """Find the file of footprints in any folder of a zip; for a file geodatabase, its folder."""
    members = vector_members(path, ZIPPED_SUFFIXES)
    members = list(
        dict.fromkeys(str(PurePosixPath(name).parent) if _suffix(name) == GDBTABLE else name for name in members)
    )
    if not members:
        found = ", ".join(zip_members(path)[:NAMED]) or "nothing"
        raise InputError(
            f"{path}: no file of footprints ({', '.join(ZIPPED_SUFFIXES)}) in the zip; it holds {found}. "
            "Unpack it, and give the file of footprints."
        )
    kinds = [GDBTABLE if is_geodatabase(name) else _suffix(name) for name in members]
    kind = min(kinds, key=ZIPPED_SUFFIXES.index)
    return first_of(path, [name for name, suffix in zip(members, kinds, strict=True) if suffix == kind])


def _suffix(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _gzip_ends(path: Path) -> Ends:
    """Read the ends of a gzip by unpacking it once: a gzip does not state its size, nor whether it was cut."""
    most = min(MAX_MEMBER_BYTES, RATIO_FREE_BYTES + MAX_VECTOR_RATIO * path.stat().st_size)
    with gzip.open(path) as packed:
        stream: Any = packed
        return ends_of(Unpacked(stream, str(path), "gzip file", most))


PARQUET_SUFFIXES = (".parquet", ".geoparquet")
FEATURE_ID = "id"
"""Column of the ids of a GeoJSON's features, as GDAL names it where they are texts."""
UNSUPPORTED = ("Geometry type is not supported", "Unknown WKB type")
"""What pyogrio and GEOS say of polyhedral surfaces and triangulated ones."""
OFFLINE = {"GML_DOWNLOAD_SCHEMA": "NO"}
"""No file makes GDAL ask a server for its schema."""
UNQUOTABLE = ('"', "\\", "\n")
"""What a name in a command of GDAL cannot have."""
WKT_STARTS = ("POLYGON", "MULTIPOLYGON", "SRID=")
READ_FAULTS = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,
    UnboundLocalError,
    shapely.errors.ShapelyError,
    pa.ArrowException,
)
"""What GDAL, GEOS and Arrow raise, through geopandas, on files that are not what they seem."""


def read_vector(
    path: Path, layer: str | None = None, crs: str | None = None, area: Area | None = None
) -> geopandas.GeoDataFrame:
    """Read the features of a file, in its own CRS, geometry in the column `geometry`; nested JSON as text.

    Args:
        path: the file.
        layer: its name; see `choose_layer` for what is read without.
        crs: that of the coordinates, where the file does not state it.
        area: of a large file only the features that reach into it are read.

    Raises:
        InputError: the file is missing, empty, no vector file, a zip or gzip that is not safe to read, a table without
            geometry, a GeoJSON with a CRS that is not known, or has no such layer.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file.")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty.")
    is_parquet = _is_columnar(path)
    if is_parquet and layer is not None:
        raise InputError(f"{path}: no layer {layer}; a GeoParquet has no layers.")
    source = Source(str(path), None) if is_parquet else find_source(path)
    area = area.of_file(path) if area is not None else None
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if is_parquet:
                frame = read_parquet(path, crs, area)
            elif (read := _own_reader(source)) is not None and source.content is not None:
                frame = read(source.content, crs, area)
            else:
                frame = _read_by_gdal(path, source, layer, area)
        said = {str(warning.message) for warning in caught if not issubclass(warning.category, RuntimeWarning)}
        for message in sorted(said):
            log.warning("%s: %s", path, message)
    except UnicodeDecodeError as error:
        text = error.object.decode(WESTERN, "replace")[:40]
        raise InputError(
            f"{path}: text that is not in UTF-8, as the file says or its format has it: {text!r} perhaps. Save it as "
            "UTF-8; beside a Shapefile, a .cpg says what it is in, such as ISO-8859-1."
        ) from None
    except READ_FAULTS as error:
        if any(said in str(error) for said in UNSUPPORTED):
            raise InputError(
                f"{path}: geometries of a kind that is not read ({first_line_of(error)}), such as solids drawn as "
                "polyhedral surfaces. Make polygons of them: `ogr2ogr -nlt MULTIPOLYGON OUT.gpkg IN`."
            ) from None
        raise InputError(
            f"{path}: not readable as a file of footprints ({first_line_of(error)}). GeoJSON, GeoPackage, Shapefile, "
            "zipped Shapefile and GeoParquet are."
        ) from None
    if not isinstance(frame, geopandas.GeoDataFrame) or frame.columns.duplicated().any():
        raise InputError(
            f"{path}: a table without geometry, or with two columns of one name; footprints are needed.{_wkt(frame)}"
        )
    if source.ends is not None and source.ends.is_collection:
        check_named_crs(path, source.ends, frame.crs)
    frame = _with_crs(path, frame.reset_index(drop=True), crs)
    if area is not None:
        log.warning(
            "%s: too large to be read whole; the %d features that reach into the area of the points are read (%s).",
            path,
            len(frame),
            area,
        )
        if not len(frame):
            raise InputError(
                f"{path}: no footprint lies within {MARGIN_M:.0f} m of the points ({area}). Is it of that place?"
            )
    for name in [column for column, kind in frame.dtypes.items() if kind.kind == "O" and kind.name == "object"]:
        # Objects within a GeoJSON's properties have no type that a table could hold: they go on as the text they were.
        if frame[name].map(lambda value: isinstance(value, dict | list | np.ndarray)).any():
            frame[name] = [None if value is None else json.dumps(value, default=_plain) for value in frame[name]]
    return frame if frame.geometry.name == "geometry" else frame.rename_geometry("geometry")


def _plain(value: Any) -> Any:
    """Convert an array or a time within nested values to a JSON value."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def first_line_of(error: Exception) -> str:
    """Return the first line of an error's message, at most 200 characters."""
    if isinstance(error, UnboundLocalError):  # pyogrio 0.13 on a CRS that it cannot decode
        return "the name of its CRS is not in UTF-8; save a Shapefile's .prj as that"
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _is_columnar(path: Path) -> bool:
    """Return whether a path is a Parquet, a folder of them, or a Feather."""
    if path.is_dir():
        return any(one.suffix.lower() in PARQUET_SUFFIXES for one in path.rglob("*"))
    return path.suffix.lower() in (*PARQUET_SUFFIXES, *FEATHER_SUFFIXES)


def _read_by_gdal(path: Path, source: Source, layer: str | None, area: Area | None) -> pd.DataFrame:
    pyogrio.set_gdal_config_options(OFFLINE)
    try:
        return _read_features(path, source, layer, area)
    except READ_FAULTS as error:
        if not any(said in str(error) for said in UNSUPPORTED) or any(sign in source.name for sign in UNQUOTABLE):
            raise
        with TemporaryDirectory() as folder:
            # GDAL makes polygons of the faces on the way (GDAL 3.11 and later).
            command = f'gdal vector pipeline ! read "{source.name}" ! set-geom-type --geometry-type MULTIPOLYGONZ'
            pipeline = Path(folder, f"{path.stem}.gdalg.json")
            pipeline.write_text(json.dumps({"type": "gdal_streamed_alg", "command_line": command}), encoding="utf-8")
            try:
                return _read_features(path, source._replace(name=str(pipeline), ends=None), layer, area)
            except READ_FAULTS:
                raise error from None


def _read_features(path: Path, source: Source, layer: str | None, area: Area | None) -> pd.DataFrame:
    collection = source.ends is not None and source.ends.is_collection
    # A GeoJSON has one layer; to list it, all of it would be read once more.
    chosen = None if collection and layer is None else _chosen_layer(path, source, layer)
    if path.is_dir() and chosen is not None and (shape := path / f"{chosen}{SHP}").is_file():
        source = source._replace(texts=text_encoding(shape))
    return _read_layer(source, chosen, collection, area)


def _own_reader(source: Source) -> Callable[[CsvFile, str | None, Area | None], geopandas.GeoDataFrame] | None:
    """Return the reader for a file that GDAL cannot read as buildings; None for other files."""
    start = "" if source.ends is None else source.ends.start
    if is_city_json(start):
        return read_city_json
    if is_city_gml(start):
        return read_city_gml
    return partial(read_csv, start) if has_outlines(start) else None


def _chosen_layer(path: Path, source: Source, wanted: str | None) -> str | None:
    if wanted is None and source.ends is not None and is_openstreetmap(source.ends.start):
        return OSM_LAYER
    return choose_layer(path, source.name, wanted)


def _with_crs(path: Path, frame: geopandas.GeoDataFrame, stated: str | None) -> geopandas.GeoDataFrame:
    """Set the CRS that the user states if the file lacks one."""
    if stated is None or frame.crs == stated:
        return frame
    if frame.crs is None:
        return frame.set_crs(stated)
    log.warning("%s: crs %s of ingest.footprints does not count, the file states %s.", path, stated, frame.crs.name)
    return frame


def _read_layer(source: Source, layer: str | None, with_ids: bool, area: Area | None) -> pd.DataFrame:
    # GDAL guesses dates from strings in GeoJSON, and writes them in its own way: a building may be called 2024-01-01.
    options: dict[str, Any] = {"datetime_as_string": source.name.startswith(LINES)}
    if with_ids:
        options = {"DATE_AS_STRING": "YES"}
    bounds = None
    is_osm = layer == OSM_LAYER and source.ends is not None and is_openstreetmap(source.ends.start)
    if is_osm:
        options["where"] = OSM_BUILDINGS
    if area is not None and (own := pyogrio.read_info(source.name, layer=layer)["crs"]) is not None:
        bounds = area.bounds_in(pyproj.CRS(own))
    # A ring that cannot even be made a polygon would stop the reader without a word on where: as None it gets a place.
    frame: pd.DataFrame = geopandas.read_file(
        source.name,
        layer=layer,
        encoding=source.texts.encoding,
        on_invalid="ignore",
        fid_as_index=with_ids,
        bbox=bounds,
        **options,
    )
    mend_integers(
        frame,
        lambda names: pyogrio.read_arrow(source.name, layer=layer, columns=names, read_geometry=False, bbox=bounds)[1],
    )
    frame = source.texts.join(frame)
    if is_osm:
        return name_openstreetmap(frame)
    ids = frame.index.to_numpy()
    # Where a feature has no id, or that of another, GDAL gives it its place.
    if with_ids and FEATURE_ID not in frame.columns and len(ids) and not (ids == np.arange(len(ids))).any():
        frame.insert(0, FEATURE_ID, ids)
    return frame


def _wkt(frame: pd.DataFrame) -> str:
    """Return advice for a table with its geometry as text; empty for other tables."""
    for name in frame.columns[~frame.columns.duplicated()]:
        text = frame[name].dropna().astype(str).head(1).str.lstrip().str.upper()
        if text.str.startswith(WKT_STARTS).any():
            return (
                f" Its column {name} holds them as text (WKT): `ogr2ogr -f GPKG OUT.gpkg IN.csv -oo "
                f"GEOM_POSSIBLE_NAMES={name} -a_srs EPSG:4326` makes a file of it, with the CRS that they are in."
            )
    return ""
