"""Whether a Shapefile is whole: GDAL reads one that was cut, or that has lost a file, without a word."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path, PurePosixPath

from plumbline.core.errors import InputError
from plumbline.sources.files.archive import Product

SUFFIX, TABLES = ".shp", (".dbf", ".DBF")
START = b"\x00\x00\x27\x0a"
LENGTH = slice(24, 28)
"""Where the header says how long the file is: words of 16 bits, big endian (ESRI, Shapefile Technical Description)."""


def check_whole(path: Path, member: str | None = None) -> None:
    """Refuse a Shapefile that is shorter than its header says, or without its table; else, nothing is looked at.

    Args:
        path: the file, or the zip that has it.
        member: of the zip.

    Raises:
        InputError: it was cut, which GDAL takes for buildings without an outline; or its .dbf is not there, and with it
            the ids.
    """
    shape = Product(path, member)
    if PurePosixPath(member or path.name).suffix.lower() != SUFFIX:
        return
    with shape.open() as stream:
        start = stream.read(LENGTH.stop)
    if not start.startswith(START) or len(start) < LENGTH.stop:
        return  # GDAL says that it is none
    (words,) = struct.unpack(">i", start[LENGTH])
    tables = [PurePosixPath(member or path.name).with_suffix(suffix) for suffix in TABLES]
    if member is None:
        size, has_table = path.stat().st_size, any((path.parent / table).exists() for table in tables)
    else:
        size, names = _zipped(path, member)
        has_table = any(str(table) in names for table in tables)
    if size < 2 * words:
        raise InputError(
            f"{shape}: cut off: {size:,} bytes found, its header says {2 * words:,}. Download it again; the buildings "
            "at its end are missing."
        )
    if not has_table:
        raise InputError(
            f"{shape}: its {tables[0].name} is missing, which has the ids and all other columns. Put it beside it; if "
            f"there is none, `ogr2ogr OUT.gpkg {tables[0].with_suffix(SUFFIX).name}` makes a file whose buildings are "
            "named after their place."
        )


def _zipped(path: Path, member: str) -> tuple[int, list[str]]:
    """The member's size in bytes, and the names of all members."""
    with zipfile.ZipFile(path) as archive:
        return archive.getinfo(member).file_size, archive.namelist()
