"""Read the bytes of a csv, whatever packs or encodes it."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

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
"""Errors that the standard library raises on a damaged, encrypted or exotic zip."""


class Unpacked(io.RawIOBase):
    """Unpacked bytes of a packed file; damage raises an `InputError` in any reader."""

    def __init__(self, stream: IO[bytes], name: str, packing: str, most: int | None = None) -> None:
        """Begin unpacking; `most` limits the bytes if the file does not state its unpacked size."""
        self._stream, self._name, self._packing, self._left = stream, name, packing, most

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read unpacked bytes; raise `InputError` if the file is damaged, or gives more
        than `most` bytes."""
        try:
            chunk = self._stream.read(len(buffer))
        except (OSError, *FAULTS) as error:
            raise InputError(
                f"{self._name}: the {self._packing} is damaged or cut off ({error}). Download it "
                "again.",
                key="archive.damaged",
            ) from None
        if self._left is not None:
            self._left -= len(chunk)
            if self._left < 0:
                raise InputError(
                    f"{self._name}: it unpacks to far more than its size. If it is genuine, "
                    "unpack it and give the file in it.",
                    key="archive.too_large",
                )
        buffer[: len(chunk)] = chunk
        return len(chunk)


MAX_MEMBER_BYTES = 16 * 2**30
"""Largest csv that is read from a zip. The densest EGMS bursts have about a million points of 2 KB
a line: 2 GiB."""
MAX_RATIO = 100
"""Largest csv : compressed size. Tables of decimals reach 4, an all-zero one about 30; a
zip bomb is near 1000."""
MAX_VECTOR_RATIO = 400
"""Largest such ratio of files of footprints: a Shapefile's .dbf pads its texts with spaces."""
RATIO_FREE_BYTES = 2**20
"""Members below this size may have any ratio: they can do no harm."""
BUFFER_BYTES = 2**20


@dataclass(frozen=True)
class CsvFile:
    """One csv, in a file of its own or as a member of a zip, or a part of one; `str()`
    names it for messages."""

    path: Path
    member: str | None = None
    start: int = 0
    """Byte from which on lines belong to this part. A zip's member has one part."""
    end: int | None = None
    """Byte from which on lines belong to the next part; None: to the end."""
    gzipped: bool = False
    encoding: str = "utf-8"
    separator: bytes = b","
    """Bytes between cells."""
    decimal: bytes = b"."
    preamble: int = 0
    """Number of lines before the header."""
    behind: int = 0
    """Number of cells behind those of the header, in every row; they have to be empty."""
    missing: tuple[str, ...] = ()
    """Texts that are stated to mean no value."""
    max_ratio: int = MAX_RATIO
    """Largest size : packed size of a gzip."""

    @property
    def is_cuttable(self) -> bool:
        """True if the csv can be read from any byte on, and so in parts."""
        return self.is_plain and self.encoding == "utf-8"

    @property
    def is_whole(self) -> bool:
        """True if this is the whole csv and not a part of it."""
        return not self.start and self.end is None

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path} (member {self.member})"

    @property
    def is_plain(self) -> bool:
        """True if the bytes of the file are those of the csv."""
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
                    stream: IO[bytes] = opened.enter_context(
                        self.path.open("rb", buffering=BUFFER_BYTES)
                    )
                    if self.gzipped:
                        most = min(
                            MAX_MEMBER_BYTES,
                            RATIO_FREE_BYTES + self.max_ratio * self.path.stat().st_size,
                        )
                        packed: Any = gzip.GzipFile(fileobj=stream)
                        stream = io.BufferedReader(
                            Unpacked(packed, str(self), "gzip file", most), BUFFER_BYTES
                        )
                else:
                    archive = opened.enter_context(zipfile.ZipFile(self.path))
                    member = opened.enter_context(archive.open(self.member))
                    stream = io.BufferedReader(Unpacked(member, str(self), "zip"), BUFFER_BYTES)
            except (OSError, *FAULTS) as error:
                raise InputError(
                    f"{self}: cannot be opened ({error}). Download it again.", key="file.unreadable"
                ) from None
            if self.encoding != "utf-8":
                stream = io.BytesIO(self._recode(stream.read()))
            yield stream

    def _recode(self, content: bytes) -> bytes:
        """Return text of another encoding as UTF-8; in memory, as spreadsheets write it,
        and no large products."""
        try:
            return content.decode(self.encoding).encode()
        except UnicodeError as error:
            raise InputError(
                f"{self}: not text in {self.encoding} ({error}). Save it as UTF-8.",
                key="csv.wrong_encoding",
            ) from None


@dataclass(frozen=True)
class ColumnFile(CsvFile, ABC):
    """A binary table with columns that are read like those of a csv."""

    @property
    def is_cuttable(self) -> bool:
        """False: it cannot be read from any byte on."""
        return False

    @abstractmethod
    def columns(
        self, header: Sequence[str], types: Mapping[str, pa.DataType]
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield blocks of the columns named in `types`, each with the index of its first row.

        Args:
            header: names of all columns. types: name -> type of those that are wanted.
        """
