"""Check a Shapefile before GDAL opens it: that it is complete; and find the encoding of its
texts."""

from __future__ import annotations

import zipfile
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Literal

import pandas as pd

from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.sources.files.csv_lines import WESTERN
from plumbline.sources.files.streams import CsvFile

SHP, TABLES, INDEXES = ".shp", (".dbf", ".DBF"), (".shx", ".SHX")
PARTS = (".dbf", ".shx", ".prj", ".cpg", ".sbn", ".sbx", ".qix")
SHAPEFILE_START = b"\x00\x00\x27\x0a"
SHAPEFILE_LENGTH = slice(24, 28)
"""Bytes of the header with the length of the file: words of 16 bits, big endian (ESRI, Shapefile
Technical Description)."""
INDEX_HEADER, INDEX_ROW, TABLE_COUNT = 100, 8, slice(4, 8)
"""Bytes of a .shx before its rows, and of a row; bytes of a .dbf with its number of rows, little
endian."""
SPATIAL_INDEXES: dict[str, tuple[slice, Literal["little", "big"]]] = {
    ".qix": (slice(8, 12), "little"),
    ".sbn": (slice(28, 32), "big"),
}
"""Suffix of the files by which GDAL and ArcGIS find features of an area -> bytes with the number of
these, and their order."""
STALE = timedelta(hours=1)
"""Smallest time by which an index is older than its outlines if it was not kept. Copying the parts
one after the other takes less."""
UTF_8 = "UTF-8"
BYTES = "ISO-8859-1"
"""Encoding that reads each byte as a character, so that nothing is lost."""
LANGUAGE, UNSTATED = 29, (0, 0x57)
"""Place of the language driver in a .dbf; drivers that name no encoding: none, and that of
the writer's computer."""
ENCODINGS = (".cpg", ".CPG", ".cst", ".CST")
"""Suffixes of files that state the encoding."""


def check_whole(path: Path, member: str | None = None) -> None:
    """Refuse a Shapefile that is shorter than its header states, or of which parts differ;
    ignore other files.

    Args:
        path: the file, or the zip that has it.
        member: of the zip.

    Raises:
        InputError: it was cut, which GDAL takes for buildings without an outline; its .dbf
            is not there, and with it the ids; or its .shx, by which GDAL counts the
            outlines, is of another version.
    """
    shape = CsvFile(path, member)
    if PurePosixPath(member or path.name).suffix.lower() != SHP:
        return
    with shape.open() as stream:
        start = stream.read(SHAPEFILE_LENGTH.stop)
    if not start.startswith(SHAPEFILE_START) or len(start) < SHAPEFILE_LENGTH.stop:
        return  # GDAL reports that it is none
    size, stated = _unpacked_bytes(shape), 2 * int.from_bytes(start[SHAPEFILE_LENGTH], "big")
    if size < stated:
        raise InputError(
            f"{shape}: cut off: {size:,} bytes found, its header states {stated:,}. Download it "
            "again; the buildings at its end are missing.",
            key="shapefile.cut_off",
        )
    table, index = _beside(path, member, TABLES), _beside(path, member, INDEXES)
    if table is None:
        name = PurePosixPath(member or path.name).with_suffix(TABLES[0]).name
        raise InputError(
            f"{shape}: its {name} is missing, which has the ids and all other columns. Put it "
            "beside it.",
            key="shapefile.no_table",
        )
    if index is None:
        return  # GDAL reports it
    with table.open() as stream:
        rows = int.from_bytes(stream.read(TABLE_COUNT.stop)[TABLE_COUNT], "little")
    outlines = (_unpacked_bytes(index) - INDEX_HEADER) // INDEX_ROW
    if rows != outlines:
        raise InputError(
            f"{shape}: {outlines:,} outlines in its .shx and {rows:,} rows in its .dbf: one is "
            "cut off, or of another version. Download all of its files again.",
            key="shapefile.unequal_parts",
        )


def has_stale_index(path: Path, member: str | None = None) -> bool:
    """Return whether a spatial index of a Shapefile has another number of outlines, or is much
    older than these.

    Args:
        path: the .shp, or the zip that has it.
        member: of the zip.
    """
    rows = _beside(path, member, INDEXES)
    outlines = None if rows is None else (_unpacked_bytes(rows) - INDEX_HEADER) // INDEX_ROW
    written = _time_of(CsvFile(path, member))
    for suffix, (place, order) in SPATIAL_INDEXES.items():
        index = _beside(path, member, (suffix, suffix.upper()))
        if index is None:
            continue
        with index.open() as stream:
            indexed = int.from_bytes(stream.read(place.stop)[place], order)
        if indexed != outlines or written - _time_of(index) > STALE:
            return True
    return False


def _time_of(part: CsvFile) -> datetime:
    """Return the time at which a file or a member of a zip was written last, without zone."""
    if part.member is None:
        return datetime.fromtimestamp(part.path.stat().st_mtime)
    with zipfile.ZipFile(part.path) as archive:
        return datetime(*archive.getinfo(part.member).date_time)


def find_language(path: Path, member: str | None = None) -> int | None:
    """Return the language driver that the .dbf of a Shapefile without a .cpg states, 0 for
    none; None for other files.

    Args:
        path: the .shp, or the zip that has it.
        member: of the zip.
    """
    if (
        PurePosixPath(member or path.name).suffix.lower() != SHP
        or _beside(path, member, ENCODINGS) is not None
    ):
        return None
    table = _beside(path, member, TABLES)
    if table is None:
        return None
    with table.open() as stream:
        language = (stream.read(LANGUAGE + 1)[LANGUAGE:] or b"\0")[0]
    return 0 if language in UNSTATED else language


def decode_texts(path: Path, frame: pd.DataFrame, language: int) -> pd.DataFrame | None:
    """Return a table that was read as `BYTES` with its texts as they were written.

    They are UTF-8 if they can be that, perhaps with a letter cut in two at the end of a
    cell; with a warning where the .dbf states another code page, as many programs do that
    write UTF-8. Else they are in that code page, or, with a warning, in Windows-1252.

    Args:
        path: for messages.
        frame: the table.
        language: see `find_language`.

    Returns:
        The table; None if its texts are in the code page that the .dbf states, which GDAL knows.
    """
    columns = [name for name in frame.select_dtypes(["object", "string"]) if name != "geometry"]
    cells = (text for name in columns for text in frame[name].unique() if isinstance(text, str))
    texts = [
        text.encode(BYTES) for text in (*map(str, frame.columns), *cells) if not text.isascii()
    ]
    decoded, undecoded = [], []
    for text in texts:
        try:
            decoded.append(text.decode(UTF_8))
        except UnicodeDecodeError as error:
            undecoded.append((text, error.reason == "unexpected end of data"))
    is_utf_8 = not undecoded or (bool(decoded) and all(is_cut for _, is_cut in undecoded))
    if language and not is_utf_8:
        return None
    if language and decoded:
        warn(
            "%s: its .dbf states another code page (language %d), but its texts are UTF-8, and "
            "read as that: %r. If that is wrong, put a .cpg beside it with the encoding in it, "
            "such as CP1251.",
            path,
            language,
            decoded[0][:40],
            key="shapefile.wrong_code_page",
        )
    if not is_utf_8:
        warn(
            "%s: its texts are not in UTF-8, and the file does not state their encoding: %r is "
            "read as Windows-1252. If that is wrong, put a .cpg beside it with the encoding in "
            "it, such as CP1251.",
            path,
            undecoded[0][0].decode(WESTERN, "replace")[:40],
            key="shapefile.no_encoding",
        )

    def decode(text: object) -> object:
        if not isinstance(text, str):
            return text
        try:
            return text.encode(BYTES).decode(
                *((UTF_8, "ignore") if is_utf_8 else (WESTERN, "strict"))
            )
        except UnicodeDecodeError:  # a byte that Windows-1252 lacks
            return text

    frame = frame.rename(columns=decode)
    for name in map(decode, columns):
        frame[name] = frame[name].map(decode)
    return frame


def _unpacked_bytes(part: CsvFile) -> int:
    """Return the size of a file or a member of a zip, unpacked, in bytes."""
    if part.member is None:
        return part.path.stat().st_size
    with zipfile.ZipFile(part.path) as archive:
        return archive.getinfo(part.member).file_size


def _beside(path: Path, member: str | None, suffixes: tuple[str, ...]) -> CsvFile | None:
    """Return the part of a Shapefile with one of the suffixes; None if it is not there."""
    if member is None:
        return next(
            (CsvFile(part) for suffix in suffixes if (part := path.with_suffix(suffix)).is_file()),
            None,
        )
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    parts = (str(PurePosixPath(member).with_suffix(suffix)) for suffix in suffixes)
    return next((CsvFile(path, part) for part in parts if part in names), None)
