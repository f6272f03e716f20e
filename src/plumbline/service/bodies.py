"""Limit the bodies of requests by counting their bytes, and unpack them by their `Content-Encoding`, piece by piece."""

from __future__ import annotations

import asyncio
import zlib

from starlette.types import Message, Receive

from plumbline.service.problems import Problem

PACKED = ("gzip", "deflate")
"""Encodings of bodies that are read."""
PIECE_BYTES = 1 << 18
"""Largest piece that is unpacked at a time."""
MB = 1_000_000


class Body:
    """The body of one request; it holds one piece at most."""

    def __init__(self, receive: Receive, most: int, encoding: str) -> None:
        """Read a body with `receive`.

        Args:
            most: largest size, unpacked, bytes.
            encoding: value of the header `Content-Encoding`; empty if there is none.

        Raises:
            Problem: 415 for an encoding that is not known.
        """
        if encoding not in ("", "identity", *PACKED):
            known = ", ".join(PACKED)
            raise Problem(415, f"Content-Encoding {encoding[:40]!r} is not known. Known are {known}.")
        self._receive, self._most, self._came = receive, most, 0
        self._unpacker = zlib.decompressobj(32 + zlib.MAX_WBITS) if encoding in PACKED else None  # 32: either header
        self._waits = False

    async def receive(self) -> Message:
        """Return the next message of the body.

        Raises:
            Problem: 413 if the body is too large; 400 if it is not packed as its header says, or was cut off.
        """
        unpacker = self._unpacker
        if unpacker is None or unpacker.eof:
            message = await self._receive()
            self._count(message.get("body", b""))
            return message
        packed, is_last = unpacker.unconsumed_tail, False
        if not packed and not self._waits:
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            packed, is_last = message.get("body", b""), not message.get("more_body", False)
        try:
            piece = unpacker.decompress(packed, PIECE_BYTES)
        except zlib.error:
            raise Problem(400, "The body is not packed as Content-Encoding says, or damaged.") from None
        self._waits = len(piece) == PIECE_BYTES  # what is unpacked may wait within zlib, without any input left
        is_short = is_last and not (unpacker.eof or self._waits or unpacker.unconsumed_tail)
        if is_short or unpacker.unused_data:
            raise Problem(400, "The body was cut off, or goes on behind the end of what is packed.")
        self._count(piece)
        await asyncio.sleep(0)  # others are answered meanwhile
        return {"type": "http.request", "body": piece, "more_body": not unpacker.eof}

    def _count(self, piece: bytes) -> None:
        self._came += len(piece)
        if self._came > self._most:
            raise too_large(self._most)


def too_large(most: int) -> Problem:
    """Return the refusal of a body of more than `most` bytes."""
    return Problem(413, f"The request has more than {most // MB} MB, the most that this service takes here.")
