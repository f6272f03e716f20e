"""Files of footprints within zips and gzips: what GDAL is told to open, once it is safe to."""

from __future__ import annotations

import gzip
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from plumbline.core.errors import InputError
from plumbline.sources.files.archive import (
    GZIP_START,
    MAX_MEMBER_BYTES,
    MAX_VECTOR_RATIO,
    RATIO_FREE_BYTES,
    ZIP_START,
    gdal_name,
    vector_members,
)
from plumbline.sources.files.streams import Unpacked
from plumbline.sources.footprints.file_checks import Ends, ends_of, read_ends
from plumbline.sources.footprints.layers import first_of
from plumbline.sources.footprints.shapefile import SUFFIX, check_whole

ZIPPED_SUFFIXES = (".gpkg", ".shp", ".geojson", ".fgb", ".json", ".gml", ".kml")
"""Of files to look for in a zip, the likelier first."""
LINES = "GeoJSONSeq:"
"""Tells GDAL that each line is a feature, whatever the name says: Microsoft's footprints are named `.csv.gz`."""


class Source(NamedTuple):
    """What GDAL opens, and how that begins and ends; None of a folder, or of what is not looked into."""

    name: str
    ends: Ends | None


def find_source(path: Path) -> Source:
    """The file of footprints that a path is, or holds.

    Raises:
        InputError: a zip or gzip that is damaged, not safe to read, or without footprints; a Shapefile that is not
            whole.
    """
    if path.is_dir() and len(shapes := [one for one in path.iterdir() if one.suffix.lower() == SUFFIX]) == 1:
        check_whole(shapes[0])
    if not path.is_file():
        return Source(str(path), None)
    with path.open("rb") as stream:
        start = stream.read(len(ZIP_START))
    if start == ZIP_START:
        member = _member(path)
        check_whole(path, member)
        return _source(gdal_name(path, member), read_ends(path, member))
    if start.startswith(GZIP_START):
        return _source(f"/vsigzip/{path.resolve()}", _gzip_ends(path))
    check_whole(path)
    return _source(str(path), read_ends(path))


def _source(name: str, ends: Ends) -> Source:
    return Source(f"{LINES}{name}" if ends.is_lines else name, ends)


def _member(path: Path) -> str:
    """The file of footprints in a zip, in whatever folder it is there."""
    members = vector_members(path, ZIPPED_SUFFIXES)
    if not members:
        raise InputError(f"{path}: no file of footprints ({', '.join(ZIPPED_SUFFIXES)}) in the zip.")
    kinds = [PurePosixPath(name).suffix.lower() for name in members]
    kind = min(kinds, key=ZIPPED_SUFFIXES.index)
    return first_of(path, [name for name, suffix in zip(members, kinds, strict=True) if suffix == kind])


def _gzip_ends(path: Path) -> Ends:
    """All of it is unpacked once, and forgotten: a gzip does not say how large it is, nor whether it was cut."""
    most = min(MAX_MEMBER_BYTES, RATIO_FREE_BYTES + MAX_VECTOR_RATIO * path.stat().st_size)
    with gzip.open(path) as packed:
        stream: Any = packed
        return ends_of(Unpacked(stream, str(path), "gzip file", most))
