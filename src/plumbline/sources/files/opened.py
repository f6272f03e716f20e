"""Open a file: recognise it by its first bytes, list its members, unpack its stream."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, TypeVar

import pyarrow as pa

from plumbline import params
from plumbline.core.errors import InputError

FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    RuntimeError,
    ValueError,
    OverflowError,
)
"""What the standard library raises on a damaged, encrypted or exotic zip."""


class Unpacked(io.RawIOBase):
    """Unpacked bytes of a packed file; damage raises an `InputError` in any reader."""

    def __init__(self, stream: IO[bytes], name: str, packing: str, most: int | None = None) -> None:
        """Begin unpacking; `most` limits the bytes if the file does not state its unpacked size."""
        self._stream, self._name, self._packing, self._left = stream, name, packing, most

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read unpacked bytes; raise `InputError` if the file is damaged, or gives more than `most` bytes."""
        try:
            data = self._stream.read(len(buffer))
        except (OSError, *FAULTS) as error:
            raise InputError(
                f"{self._name}: the {self._packing} is damaged or cut off ({error}). Download it again."
            ) from None
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise InputError(
                    f"{self._name}: it unpacks to far more than its size. If it is genuine, unpack it and give the "
                    "file in it."
                )
        buffer[: len(data)] = data
        return len(data)


class Exchanged(io.RawIOBase):
    """Bytes exchanged one for one, so that places in the file stay what they are."""

    def __init__(self, stream: IO[bytes], table: bytes) -> None:
        self._stream, self._table = stream, table

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def seekable(self) -> bool:
        """Return whether the file is seekable."""
        return self._stream.seekable()

    def tell(self) -> int:
        """Return the place in the file."""
        return self._stream.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place in the file."""
        return self._stream.seek(offset, whence)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read the next bytes, exchanged."""
        data = self._stream.read(len(buffer)).translate(self._table)
        buffer[: len(data)] = data
        return len(data)


class Recoded(io.RawIOBase):
    """Text of another encoding, as UTF-8."""

    def __init__(self, stream: IO[bytes], encoding: str, name: str) -> None:
        self._stream, self._name, self._encoding = stream, name, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._rest = b""

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read text as UTF-8; raise `InputError` if the bytes are not text."""
        while not self._rest:
            data = self._stream.read(len(buffer))
            try:
                self._rest = self._decoder.decode(data, final=not data).encode()
            except UnicodeError as error:
                raise InputError(f"{self._name}: not text in {self._encoding} ({error}). Save it as UTF-8.") from None
            if not data:
                break
        part, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


MAX_MEMBER_BYTES = 16 * 2**30
"""Largest csv taken out of a zip. The densest EGMS bursts have about a million points of 2 KB a line: 2 GiB."""
MAX_RATIO = 100
"""Largest csv : compressed size. Tables of decimals reach 4, an all-zero one about 30; a zip bomb is near 1000."""
MAX_VECTOR_RATIO = 400
"""The same for files of footprints: a Shapefile's .dbf pads its texts with spaces."""
RATIO_FREE_BYTES = 2**20
"""Members below this size may have any ratio: they can do no harm."""
BUFFER_BYTES = 2**20
ZIP_START = b"PK\x03\x04"
ZIP_STARTS = (ZIP_START, b"PK\x05\x06", b"PK\x07\x08")
"""Also of an empty one, and of one that was cut in volumes. `PK` alone may begin the name of a column: PK_UID."""
SPREADSHEET = "[Content_Types].xml"
"""Of every file of Excel, which is a zip."""
GZIP_START = b"\x1f\x8b"
NOT_HDF5 = (*ZIP_STARTS, GZIP_START, b"PAR1")
"""What files begin with that are surely no HDF5."""
POINT = b"\x1f"
"""What a point becomes in a file whose decimal sign is a comma; `read_header` and `parse` turn it back in texts."""


HEAD_BYTES = 2**17
"""Kept of a file's beginning: the header and the first rows of a table with thousands of epochs."""
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
HDF5_BLOCK_BYTES = 512
"""The signature stands at the beginning, or at this place, or at one twice as far, and so on (HDF5 format, III.A)."""
T = TypeVar("T")


class OpenedFile:
    """A file that is opened once to see what it is; who recognises or reads it takes this in place of a path.

    It opens the file when it is first asked. What readers find out about the file, and what they hold open, is kept
    with it until `close`. It goes to other processes as a path alone.
    """

    def __init__(self, path: Path) -> None:
        """Note the path; nothing is opened."""
        self.path = path
        self._kept: dict[object, Any] = {}

    def __str__(self) -> str:
        return str(self.path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpenedFile) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __reduce__(self) -> tuple[type[OpenedFile], tuple[Path]]:
        return OpenedFile, (self.path,)

    @property
    def start(self) -> bytes:
        """First bytes, at most `HEAD_BYTES`.

        Raises:
            InputError: the file is missing or cannot be read.
        """
        return self.kept(_look)[0]

    @property
    def is_hdf5(self) -> bool:
        """Whether the content is HDF5, which may begin behind a block of the user's; raises as `start`."""
        return self.kept(_look)[1]

    @property
    def is_whole(self) -> bool:
        """Whether `start` is all of the file."""
        return len(self.start) < HEAD_BYTES

    def kept(self, make: Callable[[Path], T]) -> T:
        """Return what `make` made of the path when it was first asked for."""
        if make not in self._kept:
            self._kept[make] = make(self.path)
        made: T = self._kept[make]
        return made

    def close(self) -> None:
        """Forget what was kept; files held open are closed."""
        self._kept.clear()


AnyFile = Path | OpenedFile


def as_file(file: AnyFile) -> OpenedFile:
    """Return the file as one that is opened once."""
    return file if isinstance(file, OpenedFile) else OpenedFile(file)


def _look(path: Path) -> tuple[bytes, bool]:
    """Read the first bytes of a file, and whether it is HDF5."""
    try:
        with path.open("rb", buffering=0) as stream:
            start = stream.read(HEAD_BYTES) or b""
            if not start or start.startswith(NOT_HDF5):
                return start, False
            place, size = 0, os.fstat(stream.fileno()).st_size
            while place + len(HDF5_SIGNATURE) <= size:
                found = start[place : place + len(HDF5_SIGNATURE)]
                if place + len(HDF5_SIGNATURE) > len(start):
                    stream.seek(place)
                    found = stream.read(len(HDF5_SIGNATURE)) or b""
                if found == HDF5_SIGNATURE:
                    return start, True
                place = 2 * place or HDF5_BLOCK_BYTES
            return start, False
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None


@dataclass(frozen=True)
class CsvFile:
    """One csv, in a file of its own or as a member of a zip, or a part of one; `str()` names it for messages."""

    path: Path
    member: str | None = None
    start: int = 0
    """Byte from which on lines belong to this part. A zip's member has one part."""
    end: int | None = None
    """Byte from which on lines belong to the next part; None: to the end."""
    gzipped: bool = False
    encoding: str = "utf-8"
    separator: bytes = b","
    """Between cells; whoever opens the file reads a comma."""
    decimal: bytes = b"."
    preamble: int = 0
    """Lines before the header."""
    line_end: bytes = b"\n"
    """`\\r` alone, of programs of old Macintoshes; whoever opens the file reads `\\n`."""
    behind: int = 0
    """Cells behind those of the header, in every row; they have to be empty."""
    missing: tuple[str, ...] = ()
    """Texts that are stated to stand for no value."""

    @property
    def is_text(self) -> bool:
        """Whether it is a csv indeed, and not columns that are read like those of one (`columns`)."""
        return True

    def columns(self, header: Sequence[str], types: Mapping[str, pa.DataType]) -> Iterator[pa.Table]:
        """Yield the rows with the columns named in `types`, of a table that is no text; `header`: its column names."""
        raise NotImplementedError(f"{self}: a csv is text")

    @property
    def is_cuttable(self) -> bool:
        """Whether the csv can be read from any byte on, and so in parts."""
        return self.is_plain and self.encoding == "utf-8"

    @property
    def is_whole(self) -> bool:
        """Whether this is the whole csv and not a part of it."""
        return not self.start and self.end is None

    @property
    def exchange(self) -> bytes | None:
        """Table that translates each byte of the file (`bytes.translate`); None: unchanged."""
        if (self.separator, self.decimal, self.line_end) == (b",", b".", b"\n"):
            return None
        # A comma that is neither becomes what the separator was: no cell is lost; a number with one is refused.
        # So is one with a point where commas are the decimal signs: 1.001 is a thousand and one.
        old, new = self.separator + b",", b"," + self.separator
        if self.decimal == b",":
            old, new = self.separator + b",.", b",." + POINT
        if self.line_end == b"\r":
            old, new = old + b"\r", new + b"\n"
        return bytes.maketrans(old, new)

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path} (member {self.member})"

    @property
    def is_plain(self) -> bool:
        """Whether the bytes of the file are those of the csv."""
        return self.member is None and not self.gzipped

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open for reading bytes, from the beginning.

        Raises:
            InputError: unreadable; also from `read` of the stream, where damage shows only there.
        """
        with ExitStack() as opened:
            try:
                if self.member is None:
                    stream: IO[bytes] = opened.enter_context(self.path.open("rb", buffering=BUFFER_BYTES))
                    if self.gzipped:
                        most = min(MAX_MEMBER_BYTES, RATIO_FREE_BYTES + MAX_RATIO * self.path.stat().st_size)
                        packed: Any = gzip.GzipFile(fileobj=stream)
                        stream = io.BufferedReader(Unpacked(packed, str(self), "gzip file", most), BUFFER_BYTES)
                else:
                    archive = opened.enter_context(zipfile.ZipFile(self.path))
                    member = opened.enter_context(archive.open(self.member))
                    stream = io.BufferedReader(Unpacked(member, str(self), "zip"), BUFFER_BYTES)
            except (OSError, *FAULTS) as error:
                raise InputError(f"{self}: cannot be opened ({error}). Download it again.") from None
            yield self.decoded(stream)

    def decoded(self, stream: IO[bytes]) -> IO[bytes]:
        """Return a stream of the csv's own bytes as UTF-8, with the separators and signs that readers know."""
        if self.encoding != "utf-8":
            stream = io.BufferedReader(Recoded(stream, self.encoding, str(self)), BUFFER_BYTES)
        if (exchange := self.exchange) is not None:
            stream = io.BufferedReader(Exchanged(stream, exchange), BUFFER_BYTES)
        return stream


def find_csv(file: AnyFile) -> CsvFile:
    """Find the csv in a file: a csv, packed by gzip or not, or the only csv in a zip.

    Raises:
        InputError: the file is missing, empty or packed twice; the zip is cut off, damaged or encrypted, has no csv or
            several, a member name that points outside the zip, or a csv of suspect size.
    """
    file = as_file(file)
    path, start = file.path, file.start
    if not start:
        raise InputError(f"{path}: the file is empty. Download it again, or write it anew.")
    if start.startswith(ZIP_STARTS):
        return CsvFile(path, _csv_member(file))
    if start.startswith(GZIP_START):
        packed = CsvFile(path, gzipped=True)
        with packed.open() as stream:
            if stream.read(len(ZIP_START)).startswith((*ZIP_STARTS, GZIP_START)):
                raise InputError(f"{path}: packed twice: a zip or gzip in a gzip. Unpack it once.")
        return packed
    if path.suffix.lower() == ".zip":
        raise InputError(f"{path}: named .zip, but its content is not a zip. Download it again.")
    return CsvFile(path)


def zip_members(file: AnyFile) -> list[str]:
    """Return the names of the files in a zip, without folders and the hidden files that operating systems add.

    Raises:
        InputError: as `find_csv`, for what concerns the zip as a whole.
    """
    return [member.filename for member in as_file(file).kept(_members)]


def vector_members(file: AnyFile, suffixes: Sequence[str]) -> list[str]:
    """Return the sorted names of a zip's members with one of the suffixes, in lower case, for GDAL to read.

    Every member of the zip, also of another suffix, is one that may be unpacked.

    Raises:
        InputError: as `zip_members`; or a member is encrypted or of suspect size.
    """
    file = as_file(file)
    members = file.kept(_members)
    for member in members:
        _check_member(file.path, member, MAX_VECTOR_RATIO, "the files in it")
    return sorted(member.filename for member in members if PurePosixPath(member.filename).suffix.lower() in suffixes)


def gdal_name(path: Path, member: str) -> str:
    """Return GDAL's name of a member of a zip, independent of the zip's own name."""
    return f"/vsizip/{{{path.resolve()}}}/{member}"


def _members(path: Path) -> list[zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except (OSError, *FAULTS) as error:
        detail = "it is cut off" if "not a zip" in str(error) else str(error)
        raise InputError(f"{path}: not readable as a zip ({detail}). Download it again.") from None
    for member in members:
        if not member.filename:
            raise InputError(f"{path}: a member without a name in the zip. Download it again.")
        if _points_outside(member.filename):
            raise InputError(
                f"{path}: member {member.filename!r} points outside of the zip. Do not use a zip that holds such names."
            )
    return [member for member in members if not (member.is_dir() or _is_hidden(member.filename))]


def _csv_member(file: OpenedFile) -> str:
    path, members = file.path, file.kept(_members)
    tables = [member for member in members if member.filename.lower().endswith(".csv")]
    if len(tables) != 1:
        names = ", ".join(member.filename for member in (tables or members)[:5]) or "nothing"
        found = f"{len(tables)} csv files" if tables else "no csv file"
        advice = " Unpack it and give each of them." if len(tables) > 1 else ""
        if SPREADSHEET in {member.filename for member in members}:
            advice = " It is a spreadsheet: save it as csv."
        elif not tables and any(member.filename.lower().endswith((".zip", ".gz")) for member in members):
            advice = " Unpack it and give what is packed in it."
        raise InputError(f"{path}: {found} in the zip, one is needed (it holds {names}).{advice}")
    (table,) = tables
    if table.file_size == 0:
        raise InputError(f"{path}: member {table.filename} is empty. Download the zip again.")
    _check_member(path, table, MAX_RATIO, "the csv itself")
    return table.filename


def _check_member(path: Path, member: zipfile.ZipInfo, max_ratio: int, instead: str) -> None:
    if member.flag_bits & 1:
        raise InputError(f"{path}: member {member.filename} is encrypted. Decrypt it first.")
    ratio = member.file_size / max(member.compress_size, 1)
    if member.file_size > MAX_MEMBER_BYTES or (member.file_size > RATIO_FREE_BYTES and ratio > max_ratio):
        raise InputError(
            f"{path}: member {member.filename} unpacks to {member.file_size:,} bytes, {ratio:.0f} times its packed "
            f"size (at most {MAX_MEMBER_BYTES:,} bytes and {max_ratio} times are read). If it is genuine, unpack it "
            f"and give {instead}."
        )


def _points_outside(name: str) -> bool:
    windows = PureWindowsPath(name)
    return ".." in windows.parts or bool(windows.drive or windows.root) or PurePosixPath(name).is_absolute()


def _is_hidden(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return "__MACOSX" in parts or any(part.startswith(".") for part in parts)


FOREIGN = {
    b"II*\0": "GeoTIFF",
    b"MM\0*": "GeoTIFF",
    b"II+\0": "GeoTIFF",
    b"MM\0+": "GeoTIFF",
    b"CDF": "NetCDF file",
    b"MATLAB 5.0": "MATLAB file",
    b"%PDF": "PDF",
    b"Rar!": "rar archive",
    b"7z\xbc\xaf": "7z archive",
    b"BZh": "bzip2 archive",
    b"\xfd7zXZ": "xz archive",
    b"\xd0\xcf\x11\xe0": "workbook of Excel 97",
    b"\0\x01\0\0Standard": "database of Access",
    b"<?xml": "XML file (KML, GML)",
    b"<kml": "KML file",
    b"<!DOCTYPE": "web page",
    b"<!doctype": "web page",
    b"<html": "web page",
}
"""What a file begins with -> what it is."""
RASTERS = ("GeoTIFF", "NetCDF file")


def describe_foreign(start: bytes) -> str | None:
    """Name the type of a file that is not a table of points, with advice; None for a possible table.

    Args:
        start: its first bytes.
    """
    start = start.removeprefix(b"\xef\xbb\xbf")
    kind = next((kind for begins, kind in FOREIGN.items() if start.startswith(begins)), None)
    if kind is None:
        return None
    article = "an" if kind.startswith("XML") else "a"
    if kind in RASTERS:
        return (
            f"{article} {kind}. Give points: a raster's cells as rows of a csv, with a column of displacements an epoch"
        )
    return f"{article} {kind}. Export its table as csv, or its layer of points as GeoPackage"


def fits(path: Path, pattern: str) -> bool:
    """Return whether a pattern fits a file: its name, and as many of its folders as the pattern has.

    `ts.csv` and `*.csv` fit `asc/ts.csv` and `desc/ts.csv`, `asc/*.csv` the first of them alone. A name that is the
    pattern fits, whatever is in it: `a[1].csv` is not only `a1.csv`.
    """
    parts = path.absolute().parts
    tail = "/".join(parts[-1 - pattern.lstrip("/").count("/") :])
    pattern = pattern.lstrip("/")
    return tail == pattern or fnmatchcase(tail, pattern)


def product_params(path: Path, products: Mapping[str, params.Product]) -> params.Product:
    """Return the settings of the first pattern in `products` that fits the file, or else empty settings."""
    return next((about for pattern, about in products.items() if fits(path, pattern)), params.Product())
