"""Find the files of footprints in a path, and refuse what holds none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.core.geopackage import START as SQLITE_START
from plumbline.core.geopackage import SUFFIX as GEOPACKAGE
from plumbline.core.geopackage import check_complete
from plumbline.sources.files.foreign import (
    GZIP_START,
    OF_TILES,
    UNPACK,
    ZIP_START,
    check_finished,
    check_zip,
    describe_archive,
    kind_of,
    what_else,
)
from plumbline.sources.files.opened import gdal_name, vector_members, zip_members
from plumbline.sources.files.streams import MAX_VECTOR_RATIO, CsvFile
from plumbline.sources.footprints.ends import LOOKED_AT, Ends, read_ends
from plumbline.sources.footprints.geometry import NAMED
from plumbline.sources.footprints.shapefile import SHP

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
PARQUET_SUFFIXES = (".parquet", ".geoparquet")
FEATHER_SUFFIXES = (".feather", ".arrow")
VECTOR_SUFFIXES = (*FILE_SUFFIXES, *PARQUET_SUFFIXES, *FEATHER_SUFFIXES)
"""Suffixes of files that `read_vector` reads."""
HIDDEN = "._"
"""First characters of names of files that Arrow passes over, as those of Spark and of macOS."""
NAMES = ("building", "footprint", "pand", "gebaeude", "gebäude", "batiment", "bâtiment", "edific")
"""Words in the names of layers of footprints."""
NUMBER = re.compile(r"((?<!\d)(?:19|20)\d\d(?:(?:0[1-9]|1[0-2])(?:[0-3]\d)?)?(?!\d))|\d+")
"""Number of a tile; or (group 1) a year or day, which distinguishes editions."""


class Piece(NamedTuple):
    """A file to read, alone or as a part of the footprints."""

    path: Path
    name: str
    """Name for GDAL to open."""
    layer: str | None = None
    """Name of the layer to read; None: see `choose_layers`."""
    ends: Ends | None = None
    """Its beginning and end; None of a folder, a geodatabase and a Parquet."""
    is_columnar: bool = False
    """True for a Parquet, a folder of them, or a Feather."""


def find_pieces(path: Path, layer: str | None = None) -> Iterator[Piece]:
    """Yield the files of footprints in a path: the file itself, one in a zip, or the numbered
    parts in a folder or zip.

    Args:
        path: what the user names. layer: in a zip of several files also the name of one.

    Raises:
        InputError: a folder of other files than parts; a zip or gzip that is damaged, not
            safe to read, or without footprints; a text that is cut off; a layer of a
            GeoParquet.
    """
    if _is_columnar(path):
        if layer is not None:
            raise InputError(
                f"{path}: no layer {layer}; a GeoParquet has no layers.", key="layer.missing"
            )
        yield Piece(path, str(path), is_columnar=True)
        return
    files = _list_parts(path) if path.is_dir() and not _is_read_as_one(path) else [path]
    chosen = [
        (file, member)
        for file in files
        for member in _choose_members(file, layer, is_part=len(files) > 1)
    ]
    if len(chosen) > 1:
        names = ", ".join(
            str(member) if file == path else file.name for file, member in chosen[:NAMED]
        )
        warn("%s: its parts %s are read as one.", path, names, key="footprints.read_as_one")
    # One after the other: each holds the beginning and the end of its file.
    yield from (find_piece(file, layer, member) for file, member in chosen)


def _is_columnar(path: Path) -> bool:
    """Return whether a path is a Parquet, a folder of them, or a Feather."""
    if path.is_dir():
        return any(
            file.suffix.lower() in PARQUET_SUFFIXES and file.name[0] not in HIDDEN
            for file in path.rglob("*")
        )
    return path.suffix.lower() in (*PARQUET_SUFFIXES, *FEATHER_SUFFIXES)


def is_folder_of_footprints(path: Path) -> bool:
    """Return whether `read_vector` reads a folder as one: a geodatabase, a Shapefile, or parts."""
    return path.is_dir() and (
        _is_read_as_one(path)
        or _is_columnar(path)
        or are_parts([file.name for file in _list_files(path)])
    )


def are_parts(names: Sequence[str]) -> bool:
    """Return whether several names differ in their numbers alone, as those of tiles do."""
    return (
        len(names) > 1
        and len({NUMBER.sub(lambda match: match[1] or "#", name).casefold() for name in names}) == 1
    )


def name_alike(names: list[str]) -> list[str]:
    """Return the names that look like footprints."""
    return [name for name in names if any(word in name.lower() for word in NAMES)]


def _list_parts(folder: Path) -> list[Path]:
    """Return the numbered parts of footprints in a folder."""
    parts = _list_files(folder)
    names = [part.name for part in parts]
    if are_parts(names):
        return parts
    raise InputError(
        f"{folder}: a folder, and any of its files may hold the footprints "
        f"({', '.join(names[:NAMED])}). Give one of them, or name the parts of a city alike, as "
        "houses_1.gpkg, houses_2.gpkg."
        if parts
        else f"{folder}: a folder without footprints. Give the file that holds them.",
        key="folder.ambiguous" if parts else "folder.no_footprints",
    )


def _is_read_as_one(path: Path) -> bool:
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


def _choose_members(path: Path, layer: str | None, is_part: bool) -> Sequence[str | None]:
    """Return the files of a zip to read: the one that is named as the layer, numbered parts,
    or the likeliest; None for another file.

    Args:
        path: the file. layer: its name, if the user names one.
        is_part: True if the file is a part of a city itself, of which one file is read.
    """
    if not path.is_file() or not _read_start(path).startswith(ZIP_START):
        return [None]
    members = _list_likeliest(path)
    if not is_part:
        named = [name for name in members if _is_named(name, layer)]
        if len(named) == 1:
            return named
        if layer is None and are_parts(members) and not any(map(_is_geodatabase, members)):
            return members
    alike = name_alike(members)
    chosen = alike[0] if len(alike) == 1 else members[0]
    if len(members) > 1:
        warn(
            "%s: %s found in it, %s is read.",
            path,
            ", ".join(members[:NAMED]),
            chosen,
            key="archive.member_chosen",
        )
    return [chosen]


def _list_likeliest(path: Path) -> list[str]:
    """List the files of the likeliest kind in any folder of a zip; for a file geodatabase,
    its folder."""
    names, vectors = zip_members(path), vector_members(path, ZIPPED_SUFFIXES)
    advice = describe_archive(names)
    if not vectors or advice.startswith("It is"):
        listed = ", ".join(names[:NAMED]) or "nothing"
        raise InputError(
            f"{path}: no file of footprints ({', '.join(ZIPPED_SUFFIXES)}) in the zip; it holds "
            f"{listed}. {advice or 'Unpack it, and give the file of footprints.'}",
            key="archive.no_footprints",
        )
    members = dict.fromkeys(
        str(PurePosixPath(name).parent) if _suffix(name) == GDBTABLE else name for name in vectors
    )
    kinds = {name: GDBTABLE if _is_geodatabase(name) else _suffix(name) for name in members}
    likeliest = min(kinds.values(), key=ZIPPED_SUFFIXES.index)
    return [name for name, kind in kinds.items() if kind == likeliest]


def find_piece(path: Path, layer: str | None, member: str | None) -> Piece:
    """Find out how to read a file, or a member of a zip.

    Raises:
        InputError: as `find_pieces`.
    """
    if not path.is_file():
        return Piece(path, str(path), layer)
    if path.suffix.lower() == TILES:
        raise InputError(f"{path}: {OF_TILES}", key="file.foreign")
    check_finished(path)
    start = _read_start(path)
    if (kind := kind_of(start) or "").endswith("archive"):
        raise InputError(f"{path}: {kind}. {UNPACK}.", key="file.foreign")
    check_zip(path, start)
    name, content = str(path), CsvFile(path, member)
    if member is not None:
        name = gdal_name(path, member)
        if _is_geodatabase(member):
            return Piece(path, name.rstrip("/."), layer)
        layer = None if _is_named(member, layer) else layer
    elif start.startswith(GZIP_START):
        name = f"/vsigzip/{path.resolve()}"
        content = CsvFile(path, gzipped=True, max_ratio=MAX_VECTOR_RATIO)
    if start.startswith(SQLITE_START) or _suffix(member or "") == GEOPACKAGE:
        check_complete(path, member, zip_members(path) if member else ())
    ends = read_ends(content)
    if (problem := what_else(ends.start)) is not None:
        raise InputError(f"{content}: {problem}", key="file.foreign")
    if ends.is_lines and not ends.has_whole_end:
        raise InputError(
            f"{content}: cut off: its last line is no whole feature. Download it again; the "
            "buildings at its end are missing.",
            key="geojson.cut_off",
        )
    return Piece(path, f"{LINES}{name}" if ends.is_lines else name, layer, ends)


def _read_start(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(LOOKED_AT)


def _is_named(member: str, layer: str | None) -> bool:
    """Return whether a layer has the name of a file in a zip."""
    return PurePosixPath(member).stem.casefold() == (layer or "").casefold()


def _is_geodatabase(member: str) -> bool:
    """Return whether a name in a zip is the folder of a file geodatabase (.gdb), or the zip
    itself is one."""
    return member == "." or PurePosixPath(member).suffix.lower() == GEODATABASE


def _suffix(name: str) -> str:
    return PurePosixPath(name).suffix.lower()
