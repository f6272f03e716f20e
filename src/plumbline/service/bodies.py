"""Unpack bodies of requests by their `Content-Encoding`, piece by piece, and tell whether they are whole."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncIterator, Iterator

from starlette.types import Message

from plumbline.service.problems import ENCODINGS as KNOWN
from plumbline.service.problems import Problem

NAMES = {b"gzip": "gzip", b"x-gzip": "gzip", b"deflate": "deflate"}
"""As the header names them -> how they are unpacked."""
PIECE_BYTES = 1 << 18
"""Unpacked at a time, whatever a body unpacks to."""
ZLIB_HEADER_BYTES = 2


def encoding_of(headers: list[tuple[bytes, bytes]]) -> str | None:
    """Return how a body is packed, by the headers of its request; None if it is not.

    Raises:
        Problem: 415 for an encoding that is not known, or for several in one another.
    """
    named = [one.strip().lower() for name, value in headers if name == b"content-encoding" for one in value.split(b",")]
    packed = [one for one in named if one not in (b"", b"identity")]
    if not packed:
        return None
    if len(packed) > 1:
        raise Problem(415, f"Content-Encoding names {len(packed)} encodings. Pack the body once: {KNOWN}.")
    if packed[0] not in NAMES:
        found = packed[0][:40].decode("latin-1")
        raise Problem(415, f"Content-Encoding {found!r} is not known. Known are {KNOWN}, or send the body as it is.")
    return NAMES[packed[0]]


BOUNDARY = re.compile(rb'multipart/[^;]+;.*?\bboundary="?([^";,]+)', re.IGNORECASE)
TAIL_BYTES = 1 << 12
"""Of the end of a body, in which its closing boundary stands; behind that, nothing is expected."""


def end_of(headers: list[tuple[bytes, bytes]]) -> bytes | None:
    """Return what a form of several parts has at its end, by the headers of its request; None of another body."""
    kind = next((value for name, value in headers if name == b"content-type"), b"")
    found = BOUNDARY.match(kind.strip())
    return None if found is None else b"--" + found[1].strip() + b"--"


async def ended(coming: AsyncIterator[Message], end: bytes) -> AsyncIterator[Message]:
    """Yield the messages of a form; a part without an end would be left out without a word.

    Raises:
        Problem: 400 if the form has no end.
    """
    tail = b""
    async for message in coming:
        tail = (tail + message.get("body", b"")[-TAIL_BYTES:])[-TAIL_BYTES:]
        is_last = message["type"] == "http.request" and not message.get("more_body", False)
        if is_last and end not in tail:
            raise Problem(400, "The form was cut off: its closing boundary is missing. Send it again.")
        yield message


class Unpacking:
    """A body that is being unpacked; it holds one piece at most."""

    def __init__(self, encoding: str) -> None:
        self._encoding, self._packed = encoding, b""
        self._unpacker: zlib._Decompress | None = None

    def pieces(self, data: bytes, is_last: bool) -> Iterator[bytes]:
        """Unpack the next bytes of the body.

        Args:
            data: they. is_last: whether the body ends with them.

        Raises:
            Problem: 400 if the body is not packed so, or was cut off.
        """
        self._packed += data
        full = False  # what is unpacked may wait within zlib, without any input left
        while full or (self._packed and (self._unpacker or is_last or len(self._packed) >= ZLIB_HEADER_BYTES)):
            unpacker = self._unpacker = self._unpacker or zlib.decompressobj(self._window())
            try:
                piece = unpacker.decompress(self._packed, PIECE_BYTES)
            except zlib.error:
                raise Problem(400, f"The body is not {self._encoding}, as Content-Encoding says, or damaged.") from None
            self._packed = unpacker.unconsumed_tail
            if unpacker.eof:  # a gzip may have several members; behind deflate, nothing may come
                self._packed, self._unpacker = unpacker.unused_data, None
                if self._packed and self._encoding != "gzip":
                    raise Problem(400, "The body goes on behind its end as deflate.")
            full = not unpacker.eof and len(piece) == PIECE_BYTES
            if piece:
                yield piece
        if is_last and self._unpacker is not None:
            raise Problem(400, f"The body was cut off: its {self._encoding} has no end. Send it again.")

    def _window(self) -> int:
        """Return what zlib calls the window: of gzip, of zlib, or of bare deflate, which some clients send."""
        if self._encoding == "gzip":
            return 16 + zlib.MAX_WBITS
        first = int.from_bytes(self._packed[:ZLIB_HEADER_BYTES])
        is_zlib = first >> 8 & 15 == zlib.DEFLATED and first % 31 == 0
        return zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS
