"""How a csv is written: its encoding, the signs between cells and before decimals, the lines before its header."""

from __future__ import annotations

import re
from dataclasses import replace

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.files.archive import Product
from plumbline.sources.files.cells import DECIMAL_COMMA, DECIMAL_POINT
from plumbline.sources.files.lines import MAX_HEADER_BYTES

SEPARATORS = {",": b",", ";": b";", "tab": b"\t", "|": b"|"}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
WESTERN = "cp1252"
"""Taken where a header is not UTF-8: what spreadsheets of Western Europe write."""
MAX_PREAMBLE = 100
NOTHING = params.Product()
LOOKED_AT = 5
"""Rows in which a decimal comma is looked for."""


def dialect(product: Product, about: params.Product = NOTHING) -> Product:
    """The csv with what its first lines show of how it is written; what `about` states counts more.

    Raises:
        InputError: the file cannot be read, or has no separator as stated.
    """
    with product.open() as stream:
        start = stream.readline(MAX_HEADER_BYTES)
    if start.startswith(UTF_16):
        product = replace(product, encoding="utf-16")
    lines = _first_lines(product)
    preamble = next((number for number, line in enumerate(lines) if not _is_preamble(line)), 0)
    header = lines[preamble] if lines else b""
    if preamble and lines[preamble - 1].startswith(b"#") and _is_header_of(lines[preamble - 1], header):
        preamble, header = preamble - 1, lines[preamble - 1]
    if not _decodes(header, "utf-8") and _decodes(header, WESTERN) and b"\0" not in header:
        product = replace(product, encoding=WESTERN)
    product = replace(product, preamble=preamble)
    stated = SEPARATORS[about.separator] if "separator" in about.model_fields_set else None
    if stated is not None and stated not in header:
        raise InputError(
            f"{product}, line {preamble + 1}: no {about.separator!r} in it, which params.yaml says is between cells; "
            f"it begins {header[:80].decode('utf-8', 'replace').strip()!r}. Correct separator in ingest.products, "
            "or leave it out."
        )
    separator = stated or max(SEPARATORS.values(), key=header.count)  # of equals the first, a comma
    decimal = (
        about.decimal.encode() if "decimal" in about.model_fields_set else _decimal(lines[preamble + 1 :], separator)
    )
    if separator == decimal:
        raise InputError(
            f"{product}: its cells are separated by commas, and ingest.products says that decimals are written with "
            "one. Correct decimal there."
        )
    return replace(product, separator=separator, decimal=decimal)


def _first_lines(product: Product) -> list[bytes]:
    """As far as rows are needed to see how the file is written."""
    lines: list[bytes] = []
    rows = 0
    with product.open() as stream:
        while rows <= LOOKED_AT and len(lines) < MAX_PREAMBLE:
            line = stream.readline(MAX_HEADER_BYTES)
            if not line:
                break
            lines.append(line)
            rows += not _is_preamble(line)
    return lines


def _is_preamble(line: bytes) -> bool:
    """A comment, a spreadsheet's note of its separator, or nothing."""
    text = line.removeprefix(b"\xef\xbb\xbf").strip()
    return not text or text.startswith((b"#", b"%")) or re.fullmatch(rb'"?sep=.?"?', text) is not None


def _is_header_of(comment: bytes, row: bytes) -> bool:
    """Whether a comment names as many columns as the row has cells, which are numbers: a header behind a `#`."""
    separator = max(SEPARATORS.values(), key=row.count)
    first = row.split(separator)[-1].strip()
    return comment.count(separator) == row.count(separator) > 0 and re.fullmatch(rb"-?[\d.,e+-]+", first) is not None


def _decimal(rows: list[bytes], separator: bytes) -> bytes:
    if separator == b",":
        return b"."
    cells = [cell for row in rows for cell in row.strip().split(separator)]
    # Most cells tell it: spreadsheets also group thousands by the other sign, 1,001 or 1.001.
    commas = sum(DECIMAL_COMMA.fullmatch(cell) is not None for cell in cells)
    return b"," if commas > sum(DECIMAL_POINT.fullmatch(cell) is not None for cell in cells) else b"."


def _decodes(line: bytes, encoding: str) -> bool:
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
