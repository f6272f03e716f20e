"""Open a file: recognise it by its first bytes, list its members, unpack its stream."""

from __future__ import annotations

import shlex
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, TypeVar

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.files.foreign import (
    GZIP_START,
    TAR,
    TAR_SIGN,
    UNPACK,
    ZIP_STARTS,
    check_finished,
    check_zip,
    describe_archive,
    is_tar,
)
from plumbline.sources.files.streams import (
    FAULTS,
    MAX_MEMBER_BYTES,
    MAX_RATIO,
    MAX_VECTOR_RATIO,
    RATIO_FREE_BYTES,
    CsvFile,
)

HEAD_BYTES = 2**17
"""Number of bytes read to recognise a file: the header and the first rows of a table with thousands
of epochs."""
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
HDF5_PLACES = (0, *(2**power for power in range(9, 17)))
"""Possible offsets of the signature (HDF5 format, III.A), as far as `HEAD_BYTES` goes."""
T = TypeVar("T")


@dataclass(frozen=True)
class OpenedFile:
    """A file that is opened once; functions that recognise or read it get this in place of a path.

    The file is opened when it is first needed. What readers have read or opened is cached until
    `close`. It goes to other processes as a path alone.
    """

    path: Path
    _cache: dict[object, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __str__(self) -> str:
        return str(self.path)

    def __reduce__(self) -> tuple[type[OpenedFile], tuple[Path]]:
        return OpenedFile, (self.path,)

    @property
    def start(self) -> bytes:
        """First bytes, at most `HEAD_BYTES`.

        Raises:
            InputError: the file is missing or cannot be read.
        """
        return self.cached(_read_start)

    @property
    def is_hdf5(self) -> bool:
        """True if the content is HDF5, perhaps behind a user block; raises as `start`."""
        has_signature = any(self.start.startswith(HDF5_SIGNATURE, place) for place in HDF5_PLACES)
        return has_signature and not is_tar(self.start)

    @property
    def is_whole(self) -> bool:
        """Whether `start` is all of the file."""
        return len(self.start) < HEAD_BYTES

    @property
    def table_start(self) -> bytes:
        """First bytes of the csv in it, unpacked, at most `HEAD_BYTES`; raises as `find_csv`."""
        return self.cached(_read_table_start)

    def cached(self, make: Callable[[Path], T]) -> T:
        """Return `make(path)`, which is called once and kept until `close`."""
        if make not in self._cache:
            self._cache[make] = make(self.path)
        value: T = self._cache[make]
        return value

    def close(self) -> None:
        """Empty the cache; an open file is closed when nobody reads it any more."""
        self._cache.clear()


AnyFile = Path | OpenedFile


def as_file(file: AnyFile) -> OpenedFile:
    """Return the file as one that is opened once."""
    return file if isinstance(file, OpenedFile) else OpenedFile(file)


def _read_start(path: Path) -> bytes:
    """Read the first bytes of a file."""
    check_finished(path)
    try:
        with path.open("rb", buffering=0) as stream:
            return stream.read(HEAD_BYTES) or b""
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.", key="file.missing") from None
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error}).", key="file.unreadable"
        ) from None


def _read_table_start(path: Path) -> bytes:
    """Read the first bytes of the csv in a file."""
    with find_csv(path).open() as stream:
        return stream.read(HEAD_BYTES)


def find_csv(file: AnyFile) -> CsvFile:
    """Find the csv in a file: a csv, packed by gzip or not, or the only csv in a zip.

    Raises:
        InputError: the file is missing, empty or packed twice; the zip is cut off, damaged
            or encrypted, has no csv or several, a member name that points outside the zip,
            or a csv of suspect size.
    """
    file = as_file(file)
    path, start = file.path, file.start
    if not start:
        raise InputError(
            f"{path}: the file is empty. Download it again, or write it anew.", key="file.empty"
        )
    if start.startswith(ZIP_STARTS):
        return CsvFile(path, _csv_member(file))
    if start.startswith(GZIP_START):
        packed = CsvFile(path, gzipped=True)
        with packed.open() as stream:
            begins = stream.read(TAR_SIGN.stop)
        if begins.startswith((*ZIP_STARTS, GZIP_START)):
            raise InputError(
                f"{path}: packed twice: a zip or gzip in a gzip. Unpack it once.",
                key="archive.packed_twice",
            )
        if is_tar(begins):
            raise InputError(f"{path}: a {TAR}. {UNPACK}.", key="file.foreign")
        return packed
    check_zip(path, start)
    return CsvFile(path)


def zip_members(file: AnyFile) -> list[str]:
    """Return the names of the files in a zip, without folders and the hidden files that
    operating systems add.

    Raises:
        InputError: as `find_csv`, for what concerns the zip as a whole.
    """
    return [member.filename for member in as_file(file).cached(_list_members)]


def vector_members(file: AnyFile, suffixes: Sequence[str]) -> list[str]:
    """Return the sorted names of a zip's members with one of the suffixes, in lower case,
    for GDAL to read.

    Every member of the zip, also of another suffix, is one that may be unpacked.

    Raises:
        InputError: as `zip_members`; or a member is encrypted or of suspect size.
    """
    file = as_file(file)
    members = file.cached(_list_members)
    for member in members:
        _check_member(file.path, member, MAX_VECTOR_RATIO, "the files in it")
    return sorted(
        member.filename
        for member in members
        if PurePosixPath(member.filename).suffix.lower() in suffixes
    )


def gdal_name(path: Path, member: str) -> str:
    """Return GDAL's name of a member of a zip, independent of the zip's own name."""
    return f"/vsizip/{{{path.resolve()}}}/{member}"


def for_command(path: Path, source: str | None = None) -> str:
    """Return how a command that runs beside a file names it; `source`: as GDAL names it,
    which may be in a zip."""
    where, _, member = (source or "").partition(f"{{{path.resolve()}}}/")
    return shlex.quote(f"{where}{path.name}/{member}" if member else path.name)


def _list_members(path: Path) -> list[zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.", key="file.missing") from None
    except (OSError, *FAULTS) as error:
        detail = "it is cut off" if "not a zip" in str(error) else str(error)
        raise InputError(
            f"{path}: not readable as a zip ({detail}). Download it again.",
            key="archive.unreadable",
        ) from None
    for member in members:
        if not member.filename:
            raise InputError(
                f"{path}: a member without a name in the zip. Download it again.",
                key="archive.nameless_member",
            )
        if _points_outside(member.filename):
            raise InputError(
                f"{path}: member {member.filename!r} points outside of the zip. Do not use a zip "
                "with such names.",
                key="archive.outside_path",
            )
    return [member for member in members if not (member.is_dir() or _is_hidden(member.filename))]


def _csv_member(file: OpenedFile) -> str:
    path, members = file.path, file.cached(_list_members)
    tables = [member for member in members if member.filename.lower().endswith(".csv")]
    if len(tables) != 1:
        names = ", ".join(member.filename for member in (tables or members)[:5]) or "nothing"
        content = f"{len(tables)} csv files" if tables else "no csv file"
        advice = " Unpack it and give each of them." if len(tables) > 1 else ""
        if not tables and (hint := describe_archive([member.filename for member in members])):
            advice = f" {hint}"
        raise InputError(
            f"{path}: {content} in the zip, one is needed (it holds {names}).{advice}",
            key="archive.csv_count",
        )
    (table,) = tables
    if table.file_size == 0:
        raise InputError(
            f"{path}: member {table.filename} is empty. Download the zip again.",
            key="archive.empty_member",
        )
    _check_member(path, table, MAX_RATIO, "the csv itself")
    return table.filename


def _check_member(path: Path, member: zipfile.ZipInfo, max_ratio: int, instead: str) -> None:
    if member.flag_bits & 1:
        raise InputError(
            f"{path}: member {member.filename} is encrypted. Decrypt it first.",
            key="archive.encrypted",
        )
    ratio = member.file_size / max(member.compress_size, 1)
    if member.file_size > MAX_MEMBER_BYTES or (
        member.file_size > RATIO_FREE_BYTES and ratio > max_ratio
    ):
        raise InputError(
            f"{path}: member {member.filename} unpacks to {member.file_size:,} bytes, {ratio:.0f} "
            f"times its packed size (at most {MAX_MEMBER_BYTES:,} bytes and {max_ratio} times are "
            f"read). If it is genuine, unpack it and give {instead}.",
            key="archive.too_large",
        )


def _points_outside(name: str) -> bool:
    windows = PureWindowsPath(name)
    return (
        ".." in windows.parts
        or bool(windows.drive or windows.root)
        or PurePosixPath(name).is_absolute()
    )


def _is_hidden(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return "__MACOSX" in parts or any(part.startswith(".") for part in parts)


def fits(path: Path, pattern: str) -> bool:
    """Return whether a pattern fits a file: its name, and as many of its folders as the
    pattern has.

    `ts.csv` and `*.csv` fit `asc/ts.csv` and `desc/ts.csv`, `asc/*.csv` the first of them
    alone. A name that is the pattern fits, whatever is in it: `a[1].csv` is not only
    `a1.csv`.
    """
    parts = path.absolute().parts
    tail = "/".join(parts[-1 - pattern.lstrip("/").count("/") :])
    pattern = pattern.lstrip("/")
    return tail == pattern or fnmatchcase(tail, pattern)


def product_params(path: Path, products: Mapping[str, params.Product]) -> params.Product:
    """Return the settings of the first pattern in `products` that fits the file, or else
    empty settings."""
    return next(
        (about for pattern, about in products.items() if fits(path, pattern)), params.Product()
    )
