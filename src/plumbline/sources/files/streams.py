"""Unpack, decode and translate bytes on their way from a file to a reader."""

from __future__ import annotations

import codecs
import io
import struct
import zipfile
import zlib
from typing import IO

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
