"""Find the dialect of a csv, and read its lines in blocks."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import IO

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.files.streams import CsvFile

BLOCK_BYTES = 2**24
"""Number of bytes read in one step: some 10,000 points of 200 epochs."""
MAX_LINE_BYTES = 2**25
MAX_HEADER_BYTES = 2**20
"""Largest header: that of thousands of epochs has some 20 KB."""


@contextmanager
def open_rows(product: CsvFile) -> Iterator[IO[bytes]]:
    """Open at the first data line of the product, or of its part."""
    with product.open() as stream:
        if product.start:
            stream.seek(product.start - 1)
            stream.readline()  # the end of a line that began in the part before
        else:
            for _ in range(product.preamble + 1):
                stream.readline()
        yield stream


def first_line_number(product: CsvFile) -> int:
    """Return the line number in the file where `open_rows` begins; counted only for
    messages about faults."""
    if not product.start:
        return 2 + product.preamble
    number, remaining_bytes = 2, product.start - 1
    with product.open() as stream:
        while remaining_bytes and (text := stream.read(min(remaining_bytes, BLOCK_BYTES))):
            number += text.count(b"\n")
            remaining_bytes -= len(text)
    return number


def blocks(product: CsvFile, stream: IO[bytes]) -> Iterator[bytearray]:
    """Yield blocks of whole lines of the product, or of its part: a line belongs to the
    part in which it begins.

    Raises:
        InputError: a line is longer than `MAX_LINE_BYTES`.
    """
    remaining_bytes = math.inf if product.end is None else product.end - stream.tell()
    while remaining_bytes > 0:
        # With room for the rest of the last line: joining two `bytes` would copy the block.
        text = bytearray(int(min(BLOCK_BYTES, remaining_bytes)))
        del text[stream.readinto(text) :]  # type: ignore[attr-defined]
        if not text:
            return
        if not text.endswith(b"\n"):
            line_end = stream.readline(MAX_LINE_BYTES)
            if len(line_end) == MAX_LINE_BYTES:
                raise InputError(
                    f"{product}: not a csv (a line longer than {MAX_LINE_BYTES:,} bytes).",
                    key="csv.long_line",
                )
            text += line_end
        remaining_bytes -= len(text)
        yield text


DECIMAL_POINT = re.compile(rb'\s*"?-?\d*\.\d+(e[-+]?\d+)?"?\s*', re.IGNORECASE)
DECIMAL_COMMA = re.compile(rb'\s*"?-?\d*,\d+(e-?\d+)?"?\s*', re.IGNORECASE)
SEPARATORS = {",": b",", ";": b";", "tab": b"\t", "|": b"|"}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
WESTERN = "cp1252"
"""Encoding of spreadsheets in Western Europe, assumed if a header is not UTF-8."""
MAX_PREAMBLE = 100
NO_SETTINGS = params.Product()
DIALECT_ROWS = 5
"""Number of rows that are searched for a decimal comma."""


def stated_missing(about: params.Product) -> tuple[str, ...]:
    """Return the texts that are stated to mean no value."""
    return tuple(value for value in about.missing or () if isinstance(value, str))


def dialect(product: CsvFile, about: params.Product = NO_SETTINGS) -> tuple[CsvFile, bytes | None]:
    """Return the csv with the dialect that its first lines show; settings in `about` take
    precedence.

    Args:
        product: the csv. about: what is stated of it.

    Returns:
        The csv, and its header's line as `open` gives it; None where that has to be read in
        another encoding.

    Raises:
        InputError: the file cannot be read, or has no separator as stated.
    """
    product = replace(product, missing=stated_missing(about))
    lines = _first_lines(product)
    if lines and lines[0].startswith(UTF_16):
        product = replace(product, encoding="utf-16")
        lines = _first_lines(product)
    as_opened = product.encoding
    preamble = next((number for number, line in enumerate(lines) if not _is_preamble(line)), 0)
    header = lines[preamble] if lines else b""
    if (
        preamble
        and lines[preamble - 1].startswith(b"#")
        and _is_header_of(lines[preamble - 1], header)
    ):
        preamble, header = preamble - 1, lines[preamble - 1]
    if not _decodes(header, "utf-8") and _decodes(header, WESTERN) and b"\0" not in header:
        product = replace(product, encoding=WESTERN)
    product = replace(product, preamble=preamble)
    stated = SEPARATORS[about.separator] if "separator" in about.model_fields_set else None
    if stated is not None and stated not in header:
        raise InputError(
            f"{product}, line {preamble + 1}: no {about.separator!r} in it, the separator in "
            f"params.yaml; it begins {header[:80].decode('utf-8', 'replace').strip()!r}. Correct "
            "separator in ingest.products, or leave it out.",
            key="csv.missing_separator",
        )
    separator = stated or max(SEPARATORS.values(), key=header.count)  # of equals the first, a comma
    decimal = (
        about.decimal.encode()
        if "decimal" in about.model_fields_set
        else _infer_decimal(lines[preamble + 1 :], separator)
    )
    if separator == decimal:
        raise InputError(
            f"{product}: its cells are separated by commas, and decimal is a comma, too, in "
            "ingest.products. Correct it there.",
            key="csv.decimal_is_separator",
        )
    behind = _count_behind(
        header, [row for row in lines[preamble + 1 :] if not _is_preamble(row)], separator
    )
    product = replace(product, separator=separator, decimal=decimal, behind=behind)
    return product, header if product.encoding == as_opened else None


def _first_lines(product: CsvFile) -> list[bytes]:
    """Read the first lines, as many as show the dialect."""
    lines: list[bytes] = []
    rows = 0
    with product.open() as stream:
        while (
            rows <= DIALECT_ROWS
            and len(lines) < MAX_PREAMBLE
            and (line := stream.readline(MAX_HEADER_BYTES))
        ):
            lines.append(line)
            rows += not _is_preamble(line)
    return lines


def _is_preamble(line: bytes) -> bool:
    """Return whether a line is a comment, a spreadsheet's note of its separator, or empty."""
    text = line.removeprefix(b"\xef\xbb\xbf").strip()
    return (
        not text or text.startswith((b"#", b"%")) or re.fullmatch(rb'"?sep=.?"?', text) is not None
    )


def _is_header_of(comment: bytes, row: bytes) -> bool:
    """Return whether a comment is a header behind a `#`: it has a name for each cell of a
    row of numbers."""
    separator = max(SEPARATORS.values(), key=row.count)
    first = row.split(separator)[-1].strip()
    return (
        comment.count(separator) == row.count(separator) > 0
        and re.fullmatch(rb"-?[\d.,e+-]+", first) is not None
    )


def _count_behind(header: bytes, rows: list[bytes], separator: bytes) -> int:
    """Count the empty cells behind those of the header in each row; 0 if rows differ."""
    cells = [_cells(row, separator) for row in rows]
    lengths = {len(row) for row in cells}
    if len(lengths) != 1:
        return 0
    count = lengths.pop() - len(_cells(header, separator))
    return (
        count
        if count > 0 and not any(cell.strip() for row in cells for cell in row[-count:])
        else 0
    )


def _cells(line: bytes, separator: bytes) -> list[str]:
    text = line.decode("latin-1").strip("\r\n")  # any bytes: cells are only counted
    with suppress(csv.Error):
        return next(csv.reader([text], delimiter=separator.decode()), [])
    return []


def _infer_decimal(rows: list[bytes], separator: bytes) -> bytes:
    if separator == b",":
        return b"."
    cells = [cell for row in rows for cell in row.strip().split(separator)]
    # Most cells show it: spreadsheets also group thousands by the other sign, 1,001 or 1.001.
    commas = sum(DECIMAL_COMMA.fullmatch(cell) is not None for cell in cells)
    return (
        b"," if commas > sum(DECIMAL_POINT.fullmatch(cell) is not None for cell in cells) else b"."
    )


def _decodes(line: bytes, encoding: str) -> bool:
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
