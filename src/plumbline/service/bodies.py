"""Limit the bodies of requests by counting their bytes, and unpack them by their `Content-Encoding`, piece by piece."""

from __future__ import annotations

import asyncio
import zlib

from python_multipart.multipart import parse_options_header
from starlette.types import Message, Receive

from plumbline.service.problems import Problem

PACKED = ("gzip", "deflate")
"""Encodings of bodies that are read."""
PIECE_BYTES = 1 << 18
"""Largest piece that is unpacked at a time."""
MB = 1_000_000
END_BYTES = 4096
"""End of a form in which its closing boundary stands; a boundary has 70 letters at most (RFC 2046)."""


class Body:
    """The body of one request; it holds one piece at most."""

    def __init__(self, receive: Receive, most: int, encoding: str, kind: str = "") -> None:
        """Read a body with `receive`.

        Args:
            most: largest size, unpacked, bytes.
            encoding: value of the header `Content-Encoding`; empty if there is none.
            kind: value of the header `Content-Type`. A form without its closing boundary lacks its last part.

        Raises:
            Problem: 415 for an encoding that is not known.
        """
        if encoding not in ("", "identity", *PACKED):
            known = ", ".join(PACKED)
            raise Problem(415, f"Content-Encoding {encoding[:40]!r} is not known. Known are {known}.")
        self._receive, self._most, self._came = receive, most, 0
        self._unpacker = zlib.decompressobj(32 + zlib.MAX_WBITS) if encoding in PACKED else None  # 32: either header
        self._waits = self._is_last = False
        boundary = parse_options_header(kind)[1].get(b"boundary") if kind.lower().startswith("multipart/") else None
        self._closing, self._tail = b"" if boundary is None else b"--" + boundary + b"--", b""

    async def receive(self) -> Message:
        """Return the next message of the body.

        Raises:
            Problem: 413 if the body is too large; 400 if it is not packed as its header says, or was cut off.
        """
        unpacker = self._unpacker
        if unpacker is None or unpacker.eof:
            message = await self._receive()
            self._count(message.get("body", b""), not message.get("more_body", False))
            return message
        packed = unpacker.unconsumed_tail
        if not packed and not self._waits:
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            packed, self._is_last = message.get("body", b""), not message.get("more_body", False)
        try:
            piece = unpacker.decompress(packed, PIECE_BYTES)
        except zlib.error:
            raise Problem(400, "The body is not packed as Content-Encoding says, or damaged.") from None
        self._waits = len(piece) == PIECE_BYTES  # what is unpacked may wait within zlib, without any input left
        is_short = self._is_last and not (unpacker.eof or self._waits or unpacker.unconsumed_tail)
        if is_short or unpacker.unused_data:
            raise Problem(400, "The body was cut off, or goes on behind the end of what is packed.")
        self._count(piece, unpacker.eof)
        await asyncio.sleep(0)  # others are answered meanwhile
        return {"type": "http.request", "body": piece, "more_body": not unpacker.eof}

    def _count(self, piece: bytes, is_last: bool) -> None:
        self._came += len(piece)
        if self._came > self._most:
            raise too_large(self._most)
        self._tail = (self._tail + piece)[-END_BYTES:]
        if is_last and self._closing not in self._tail:
            raise Problem(400, "The form was cut off: its closing boundary is missing. Send it again.")


def too_large(most: int) -> Problem:
    """Return the refusal of a body of more than `most` bytes."""
    return Problem(413, f"The request has more than {most // MB} MB, the most that this service takes here.")
