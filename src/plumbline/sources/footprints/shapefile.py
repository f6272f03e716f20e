"""Check a Shapefile before GDAL opens it: that it is complete, and which encoding its texts are in."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

import numpy as np
import pandas as pd

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.sources.files.csv_lines import WESTERN
from plumbline.sources.files.opened import for_command, gdal_name
from plumbline.sources.files.streams import CsvFile

SHP, TABLES, INDEXES = ".shp", (".dbf", ".DBF"), (".shx", ".SHX")
SHAPEFILE_START = b"\x00\x00\x27\x0a"
SHAPEFILE_LENGTH = slice(24, 28)
"""Where the header says how long the file is: words of 16 bits, big endian (ESRI, Shapefile Technical Description)."""
INDEX_HEADER, INDEX_ROW, TABLE_COUNT = 100, 8, slice(4, 8)
"""Bytes of a .shx before its rows, and of a row; where a .dbf says how many rows it has, little endian."""


def check_whole(path: Path, member: str | None = None) -> None:
    """Refuse a Shapefile that is shorter than its header states, or without one of its parts; ignore other files.

    Args:
        path: the file, or the zip that has it.
        member: of the zip.

    Raises:
        InputError: it was cut, which GDAL takes for buildings without an outline; its .dbf is not there, and with it
            the ids; or its .shx, which says where each outline is, is not there or is of another version.
    """
    shape = CsvFile(path, member)
    if PurePosixPath(member or path.name).suffix.lower() != SHP:
        return
    with shape.open() as stream:
        start = stream.read(SHAPEFILE_LENGTH.stop)
    if not start.startswith(SHAPEFILE_START) or len(start) < SHAPEFILE_LENGTH.stop:
        return  # GDAL says that it is none
    (words,) = struct.unpack(">i", start[SHAPEFILE_LENGTH])
    size = path.stat().st_size if member is None else _zipped(path, member)
    if size < 2 * words:
        raise InputError(
            f"{shape}: cut off: {size:,} bytes found, its header says {2 * words:,}. Download it again; the buildings "
            "at its end are missing."
        )
    table, index = _beside(path, member, TABLES), _beside(path, member, INDEXES)
    named = for_command(path, member and gdal_name(path, member))
    name = PurePosixPath(member or path.name).with_suffix
    if table is None:
        raise InputError(
            f"{shape}: its {name('.dbf').name} is missing, which has the ids and all other columns. Put it beside it; "
            f"if there is none, `ogr2ogr OUT.gpkg {named}` makes a file whose buildings are "
            "named after their place."
        )
    if index is None:
        raise InputError(
            f"{shape}: its {name('.shx').name} is missing, which says where each outline is. Put it beside it"
            + (
                f"; if there is none, `ogr2ogr --config SHAPE_RESTORE_SHX YES OUT.gpkg {named}` does without."
                if member is None
                else "."
            )
        )
    with table.open() as stream:
        (rows,) = struct.unpack("<I", stream.read(TABLE_COUNT.stop)[TABLE_COUNT].ljust(4, b"\0"))
    size = index.path.stat().st_size if index.member is None else _zipped(path, index.member)
    outlines = (size - INDEX_HEADER) // INDEX_ROW
    if rows != outlines:
        raise InputError(
            f"{shape}: {outlines:,} outlines in its .shx and {rows:,} rows in its .dbf: one is cut off, or of another "
            "version. Download all of its files again."
        )


def _zipped(path: Path, member: str) -> int:
    """Return the member's size in bytes."""
    with zipfile.ZipFile(path) as archive:
        return archive.getinfo(member).file_size


def _beside(path: Path, member: str | None, suffixes: tuple[str, ...]) -> CsvFile | None:
    """Return the part of a Shapefile with one of the suffixes; None if it is not there."""
    suffix = next((suffix for suffix in suffixes if _exists(path, member, suffix)), None)
    if suffix is None:
        return None
    if member is None:
        return CsvFile(path.with_suffix(suffix))
    return CsvFile(path, str(PurePosixPath(member).with_suffix(suffix)))


UTF_8 = "UTF-8"
BYTES = "ISO-8859-1"
"""Reads each byte as a character, so that nothing is lost."""
SILENT = (0, 0x57)
"""Language drivers of a .dbf that do not name an encoding: none, and that of whatever computer wrote it."""
DOUBLE_BYTE = (0x13, 0x4D, 0x4E, 0x4F, 0x79, 0x7A, 0x7B)
"""Those of Chinese, Japanese and Korean, whose bytes may look like UTF-8 by chance."""
CPG = (".cpg", ".CPG", ".cst", ".CST")
HEADER, FIELD, END_OF_FIELDS, TEXT = 32, 32, b"\r", b"C"
CHUNK_RECORDS = 10_000
ASCII = 0x80
SHAPEFILE_NAME = 10
"""Bytes of the name of a column."""
NOT_WESTERN = {0x81, 0x8D, 0x8F, 0x90, 0x9D}
"""Bytes that Windows-1252 has no character for."""


class Texts(NamedTuple):
    """Encoding of the texts of a Shapefile, and how to read them."""

    encoding: str | None
    """For GDAL; None: it decides by what the file states."""
    cut: bool = False
    """Whether they are UTF-8 with a letter cut in two at the end of a cell; see `join`."""

    def join(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the table with its texts in UTF-8, without halves of letters, if `cut`; else unchanged."""
        if not self.cut:
            return frame
        whole = frame.rename(columns=_rejoined)
        for name in [name for name in whole.columns if name != "geometry"]:
            if pd.api.types.is_string_dtype(whole[name].dtype):
                whole[name] = whole[name].map(_rejoined, na_action="ignore")
        return whole


STATED = Texts(None)


def text_encoding(path: Path, member: str | None = None) -> Texts:
    """Find the encoding of a Shapefile's texts from their bytes, if a .cpg does not state it.

    Texts that are all UTF-8 are UTF-8. Others follow the .dbf's language driver; without one they are read as Windows
    1252, with a warning.

    Args:
        path: the .shp, or the zip that has it.
        member: of the zip.
    """
    shape = PurePosixPath(member or path.name)
    if shape.suffix.lower() != SHP or any(_exists(path, member, suffix) for suffix in CPG):
        return STATED
    table = _beside(path, member, TABLES)
    if table is None:
        return STATED
    with table.open() as stream:
        return _told(table, *_foreign_texts(stream))


def _told(table: CsvFile, driver: int, found: Iterator[tuple[bytes, int]]) -> Texts:
    """Find the encoding from the texts with a letter beyond ASCII, and the widths of their cells in bytes."""
    if driver in DOUBLE_BYTE:
        return STATED
    cut, other, known = False, b"", UTF_8
    is_western = True
    for text, width in found:
        is_western = is_western and not NOT_WESTERN & set(text)
        try:
            text.decode(known)
        except UnicodeDecodeError as error:
            if error.end == len(text) == width and error.reason == "unexpected end of data":
                cut = True
                continue
            if driver not in SILENT:
                return STATED
            other, known = text, BYTES  # the rest is looked at for `is_western` only
    if other:
        log.warning(
            "%s: its texts are not in UTF-8, and the file does not state their encoding: %r is read as Windows-1252. "
            "If that is wrong, put a .cpg beside it with the encoding in it, such as CP1251.",
            table,
            other.decode(WESTERN, "replace")[:40],
        )
        return Texts(WESTERN if is_western else BYTES)
    return Texts(BYTES, cut=True) if cut else Texts(UTF_8)


def _foreign_texts(stream: IO[bytes]) -> tuple[int, Iterator[tuple[bytes, int]]]:
    """Read the language driver of a .dbf, and its texts beyond ASCII with the widths of their cells."""
    header = stream.read(HEADER)
    if len(header) < HEADER:
        return 0, iter(())
    start, size = struct.unpack("<HH", header[8:12])
    return header[29], _cells(stream, stream.read(max(start - HEADER, 0)), size)


def _cells(stream: IO[bytes], fields: bytes, size: int) -> Iterator[tuple[bytes, int]]:
    places, end = [], 1
    for at in range(0, len(fields) - FIELD + 1, FIELD):
        one = fields[at : at + FIELD]
        if one.startswith(END_OF_FIELDS):
            break
        name, is_text = one[:11].split(b"\0")[0], one[11:12] == TEXT
        if not name.isascii():
            yield name, SHAPEFILE_NAME
        width = one[16] + (256 * one[17] if is_text else 0)
        if is_text:
            places.append((end, end + width))
        end += width
    if not places or end > size:
        return
    while chunk := stream.read(size * CHUNK_RECORDS):
        records = np.frombuffer(chunk[: len(chunk) // size * size], np.uint8).reshape(-1, size)
        for left, right in places:
            cells = records[:, left:right]
            for row in np.flatnonzero((cells >= ASCII).any(axis=1)):
                yield cells[row].tobytes().rstrip(b" \0"), right - left


def _exists(path: Path, member: str | None, suffix: str) -> bool:
    if member is None:
        return path.with_suffix(suffix).is_file()
    with zipfile.ZipFile(path) as archive:
        return str(PurePosixPath(member).with_suffix(suffix)) in archive.namelist()


def _rejoined(text: str) -> str:
    return text.encode(BYTES, "ignore").decode(UTF_8, "ignore") if isinstance(text, str) else text
