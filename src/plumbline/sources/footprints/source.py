"""Find the file of footprints in a path, and refuse what holds none."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pyproj
import shapely
from numpy.typing import NDArray

from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.core.geopackage import START as SQLITE_START
from plumbline.core.geopackage import SUFFIX as GEOPACKAGE
from plumbline.core.geopackage import check_complete
from plumbline.sources.files.foreign import (
    OF_TILES,
    UNPACK,
    check_finished,
    describe_archive,
    kind_of,
    what_else,
)
from plumbline.sources.files.opened import (
    GZIP_START,
    ZIP_START,
    check_zip,
    gdal_name,
    vector_members,
    zip_members,
)
from plumbline.sources.files.streams import MAX_VECTOR_RATIO, CsvFile
from plumbline.sources.footprints.geometry import NAMED
from plumbline.sources.footprints.selection import are_parts, choose_member
from plumbline.sources.footprints.shapefile import SHP, check_whole, find_language

LOOKED_AT = 2**16
"""Bytes at the beginning and the end of a file in which `crs` is looked for."""
CHUNK_BYTES = 2**22
SEPARATOR = "\x1e\r\n \t"
"""Characters that may precede a feature: white space, and the separator of RFC 8142."""
WHOLE_TURN = 360.0
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
    def is_json(self) -> bool:
        """Return whether this is JSON: GeoJSON in one of its ways."""
        return self.start.lstrip(SEPARATOR)[:1] == "{"

    @property
    def is_lines(self) -> bool:
        """Return whether each line is a feature (GeoJSONL, GeoJSON text sequences)."""
        first, _, further = self.start.lstrip(SEPARATOR).partition("\n")
        return (
            further.lstrip(SEPARATOR).startswith("{")
            and (parse_object(first) or {}).get("type") == "Feature"
        )

    @property
    def has_whole_outline(self) -> bool:
        """Return whether the last line of a table has no outline (WKT) that is left open."""
        last = self.end.rpartition("\n")[2]
        return "POLYGON" not in last.upper() or last.count("(") <= last.count(")")

    @property
    def has_whole_end(self) -> bool:
        """Return whether the last line is whole JSON, or too long to see its beginning."""
        before, _, last = self.end.rpartition("\n")
        return not before or parse_object(last.strip(SEPARATOR)) is not None


def read_ends(content: CsvFile) -> Ends:
    """Read the beginning and the end of a file; a packed one is unpacked for that, which
    shows whether it was cut.

    Raises:
        InputError: it cannot be unpacked.
    """
    with content.open() as stream:
        first = last = stream.read(LOOKED_AT)
        if content.is_plain:
            stream.seek(max(content.path.stat().st_size - LOOKED_AT, 0))
            last = stream.read()
        while chunk := stream.read(CHUNK_BYTES):
            last = (last + chunk)[-LOOKED_AT:]
    return Ends(
        first.decode("utf-8-sig", "replace").lstrip(), last.decode("utf-8", "replace").strip()
    )


def parse_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is; None for another text."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def check_named_crs(path: Path, ends: Ends, read: pyproj.CRS | None) -> None:
    """Refuse a GeoJSON if its `crs` differs from `read`, the CRS that GDAL reads.

    Raises:
        InputError: the `crs` is not understood; the message quotes it.
    """
    stated = _named_crs(ends)
    if stated is None:
        return
    properties = (
        stated.get("properties")
        if isinstance(stated, dict) and stated.get("type") == "name"
        else None
    )
    try:
        named = pyproj.CRS.from_user_input(
            str(properties["name"]) if isinstance(properties, dict) else ""
        )
    except (KeyError, pyproj.exceptions.CRSError):
        named = None
    if named is None or read is None or named.is_projected != read.is_projected:
        raise InputError(
            f"{path}: crs {json.dumps(stated)[:120]} found, which is not known. Give it a name "
            "such as "
            '{"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::3035"}}, or remove '
            "it where the "
            "coordinates are degrees of longitude and latitude (WGS 84).",
            key="geojson.unknown_crs",
        )


def assumes_crs(ends: Ends | None) -> bool:
    """Return whether a file is a GeoJSON without `crs`, for which GDAL assumes WGS 84."""
    return ends is not None and ends.is_json and _named_crs(ends) is None


def are_degrees(geometry: NDArray[np.object_]) -> bool:
    """Return whether most coordinates (N,) may be degrees from -180 or 0, in any order of axes."""
    places = shapely.get_coordinates(geometry)
    return not len(places) or bool((np.nanmedian(np.abs(places), axis=0) <= WHOLE_TURN).all())


def _named_crs(ends: Ends) -> Any:
    """Return the collection's own `crs` member; None without one.

    It is the collection's own, and not that of something within it, if what is before it or
    after it is all of an object's rest.
    """
    for match in CRS_MEMBER.finditer(ends.start):
        if parse_object(ends.start[: match.start()].rstrip().removesuffix(",") + "}") is not None:
            try:
                return json.JSONDecoder().raw_decode(ends.start[match.end() :].lstrip())[0]
            except ValueError:
                return ends.start[match.end() :][:80]
    tails = (
        parse_object("{" + ends.end[match.start() :]) for match in CRS_MEMBER.finditer(ends.end)
    )
    return next((members["crs"] for members in tails if members is not None), None)


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
    ".osm",
    ".pbf",
    ".csv",
    ".xml",
)
"""Suffixes of files to look for in a zip, the likelier first; .xml often describes another file."""
FILE_SUFFIXES = (
    *(suffix for suffix in ZIPPED_SUFFIXES if suffix not in (GDBTABLE, ".csv", ".xml")),
    ".kmz",
)
"""Suffixes of files that are footprints by their name; of a table, the content decides."""
FOLDER_SUFFIXES = (GDBTABLE, SHP, ".tab")
"""Suffixes of files in a folder that is read as one: geodatabase, Shapefiles, MapInfo."""
TILES = ".mbtiles"
LINES = "GeoJSONSeq:"
"""Prefix by which GDAL reads each line as a feature: Microsoft's footprints are named `.csv.gz`."""


class Source(NamedTuple):
    """Name for GDAL to open, with the file's beginning and end; None for a folder or an
    unread file."""

    name: str
    ends: Ends | None
    language: int | None = None
    """Language driver of a Shapefile with texts in any encoding; see `find_language`."""
    content: CsvFile | None = None
    """File with its bytes; None of a folder."""


class Piece(NamedTuple):
    """A file to read, alone or as a part of the footprints."""

    path: Path
    member: str | None = None
    """Name of a file in the zip; None: the likeliest."""


def find_pieces(path: Path, layer: str | None = None) -> list[Piece]:
    """Return the files that make up the footprints: the path, or the numbered parts in a
    folder or zip.

    Args:
        path: what the user names. layer: in a zip of several files also the name of one.

    Raises:
        InputError: as `find_source`; or a folder of other files than parts.
    """
    if path.is_file() and is_zip(path):
        members = _likeliest(path)
        named = [
            name
            for name in members
            if PurePosixPath(name).stem.casefold() == (layer or "").casefold()
        ]
        if len(named) == 1:
            return [Piece(path, named[0])]
        if layer is None and are_parts(members) and not any(map(is_geodatabase, members)):
            warn(
                "%s: its parts %s are read as one.",
                path,
                ", ".join(members[:NAMED]),
                key="footprints.read_as_one",
            )
            return [Piece(path, name) for name in members]
    if not path.is_dir() or is_read_as_one(path):
        return [Piece(path)]
    parts = _list_files(path)
    if are_parts([part.name for part in parts]):
        warn(
            "%s: its parts %s are read as one.",
            path,
            ", ".join(part.name for part in parts[:NAMED]),
            key="footprints.read_as_one",
        )
        return [Piece(part) for part in parts]
    names = ", ".join(part.name for part in parts[:NAMED])
    raise InputError(
        f"{path}: a folder, and any of its files may hold the footprints ({names}). Give one of "
        "them, or "
        "name the parts of a city alike, as houses_1.gpkg, houses_2.gpkg."
        if parts
        else f"{path}: a folder without footprints. Give the file that holds them.",
        key="folder.ambiguous" if parts else "folder.no_footprints",
    )


def is_folder_of_parts(path: Path) -> bool:
    """Return whether a folder holds numbered parts, of footprints or, in csv or zip,
    perhaps of points."""
    return are_parts([file.name for file in _list_files(path)])


def is_read_as_one(path: Path) -> bool:
    """Return whether GDAL reads a folder: a file geodatabase, Shapefiles, MapInfo's tables."""
    return any(
        file.suffix.lower() in FOLDER_SUFFIXES and not file.name.startswith(".")
        for file in path.iterdir()
    )


def _list_files(folder: Path) -> list[Path]:
    """Return the files of a folder that may be footprints, packed or not, by name."""
    wanted = (*FILE_SUFFIXES, ".csv", ".zip")
    files = (
        file
        for file in sorted(folder.iterdir())
        if file.is_file() and not file.name.startswith(".")
    )
    return [file for file in files if unpacked_suffix(file.name) in wanted]


def unpacked_suffix(name: str) -> str:
    """Return the suffix of a file's name, without that of a gzip, in small letters."""
    return _suffix(name.lower().removesuffix(".gz"))


def is_zip(path: Path) -> bool:
    """Return whether a file begins as a zip."""
    with path.open("rb") as stream:
        return stream.read(len(ZIP_START)) == ZIP_START


def find_source(path: Path, member: str | None = None) -> Source:
    """Find the file of footprints in a path: the file itself, or one in a zip or folder.

    Args:
        path: the file or folder. member: of a zip; None: the likeliest.

    Raises:
        InputError: a zip or gzip that is damaged, not safe to read, or without footprints;
            a Shapefile that is not whole.
    """
    shapes = (
        [file for file in path.glob("[!.]*") if file.suffix.lower() == SHP] if path.is_dir() else []
    )
    if len(shapes) == 1:
        check_whole(shapes[0])
        return Source(str(path), None, find_language(shapes[0]))
    if not path.is_file():
        return Source(str(path), None)
    if path.suffix.lower() == TILES:
        raise InputError(f"{path}: {OF_TILES}", key="file.foreign")
    check_finished(path)
    with path.open("rb") as stream:
        start = stream.read(LOOKED_AT)
    if (kind := kind_of(start) or "").endswith("archive"):
        raise InputError(f"{path}: {kind}. {UNPACK}.", key="file.foreign")
    if start.startswith(ZIP_START):
        member = member or choose_member(path, _likeliest(path))
        if is_geodatabase(member):
            return Source(gdal_name(path, member).rstrip("/."), None)
        if _suffix(member) == GEOPACKAGE:
            check_complete(path, member, zip_members(path))
        name, content = gdal_name(path, member), CsvFile(path, member)
    elif start.startswith(GZIP_START):
        name, content = (
            f"/vsigzip/{path.resolve()}",
            CsvFile(path, gzipped=True, max_ratio=MAX_VECTOR_RATIO),
        )
    else:
        check_zip(path, start)
        if start.startswith(SQLITE_START):
            check_complete(path)
        name, content = str(path), CsvFile(path)
    check_whole(path, member)
    ends = read_ends(content)
    if (problem := what_else(ends.start)) is not None:
        raise InputError(f"{content}: {problem}", key="file.foreign")
    if ends.is_lines and not ends.has_whole_end:
        raise InputError(
            f"{content}: cut off: its last line is no whole feature. Download it again; the "
            "buildings at its end are missing.",
            key="geojson.cut_off",
        )
    return Source(
        f"{LINES}{name}" if ends.is_lines else name, ends, find_language(path, member), content
    )


def is_geodatabase(member: str) -> bool:
    """Return whether a name in a zip is the folder of a file geodatabase (.gdb), or the zip
    itself is one."""
    return member == "." or PurePosixPath(member).suffix.lower() == GEODATABASE


def _likeliest(path: Path) -> list[str]:
    """Find the files of the likeliest kind in any folder of a zip; for a file geodatabase,
    its folder."""
    members = vector_members(path, ZIPPED_SUFFIXES)
    members = list(
        dict.fromkeys(
            str(PurePosixPath(name).parent) if _suffix(name) == GDBTABLE else name
            for name in members
        )
    )
    if not members or describe_archive(zip_members(path)).startswith("It is"):
        names = ", ".join(zip_members(path)[:NAMED]) or "nothing"
        raise InputError(
            f"{path}: no file of footprints ({', '.join(ZIPPED_SUFFIXES)}) in the zip; it holds "
            f"{names}. "
            + (
                describe_archive(zip_members(path)) or "Unpack it, and give the file of footprints."
            ),
            key="archive.no_footprints",
        )
    kinds = [GDBTABLE if is_geodatabase(name) else _suffix(name) for name in members]
    kind = min(kinds, key=ZIPPED_SUFFIXES.index)
    return [name for name, suffix in zip(members, kinds, strict=True) if suffix == kind]


def _suffix(name: str) -> str:
    return PurePosixPath(name).suffix.lower()
