"""The lines of a table, or of the part of it that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from plumbline.core.errors import InputError
from plumbline.sources.files.archive import Product

BLOCK_BYTES = 2**24
"""Read at a time: some 10,000 points of 200 epochs."""
MAX_LINE_BYTES = 2**25
MAX_HEADER_BYTES = 2**20
"""A table with thousands of epochs has a header of some 20 KB."""


@contextmanager
def open_rows(product: Product) -> Iterator[IO[bytes]]:
    """Open at the first data line of the product, or of its part."""
    with product.open() as stream:
        if product.start:
            stream.seek(product.start - 1)
            stream.readline()  # what is left of a line that began before
        else:
            for _ in range(product.preamble + 1):
                stream.readline()
        yield stream


def first_line(product: Product) -> int:
    """Number in the file of the line where `open_rows` begins; counted only when a fault needs it."""
    if not product.start:
        return 2 + product.preamble
    number, left = 2, product.start - 1
    with product.open() as stream:
        while left and (text := stream.read(min(left, BLOCK_BYTES))):
            number += text.count(b"\n")
            left -= len(text)
    return number


def blocks(product: Product, stream: IO[bytes]) -> Iterator[bytes]:
    """Whole lines of the product, or of its part: a line belongs to the part in which it begins."""
    begin = stream.tell() if product.is_cuttable else 0
    left = None if product.end is None else product.end - begin
    rest = b""
    while left is None or left > 0:
        text = stream.read(BLOCK_BYTES if left is None else min(BLOCK_BYTES, left))
        if not text:
            break
        if left is not None:
            left -= len(text)
            if left <= 0 and not text.endswith(b"\n"):
                text += stream.readline()
        cut = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if cut:
            yield rest + text[:cut]
            rest = text[cut:]
        else:
            rest += text
            if len(rest) > MAX_LINE_BYTES:
                raise InputError(f"{product}: not a csv (a line longer than {MAX_LINE_BYTES:,} bytes).")
    if rest:
        yield rest
