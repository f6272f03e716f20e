"""Where a csv cannot be read: the line, the column, and what stands there."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import NoReturn

import pyarrow as pa

from plumbline.core.errors import InputError
from plumbline.sources.files.archive import Product
from plumbline.sources.files.cells import DECIMAL_COMMA, parses
from plumbline.sources.files.lines import BLOCK_BYTES, first_line, open_rows


def fail_at(product: Product, row: int, column: str, found: object, wanted: str) -> NoReturn:
    """Refuse data row `row` (from 0, in its part) by its line in the file.

    Raises:
        InputError: always.
    """
    number = first_line(product)
    with open_rows(product) as stream:
        # Blank lines are no rows, so the line is counted, and only now that it is needed.
        filled = ((line, text) for line, text in enumerate(stream, number) if text.strip(b"\r\n"))
        line, text = next(islice(filled, row, None), (number + row, b"?"))
    # As spreadsheets leave them below a table.
    advice = "" if text.strip(b' \t\r\n",') else " All its cells are empty: remove the line."
    raise InputError(f"{product}, line {line}, column {column}: {found} found, {wanted}.{advice}")


def fault(product: Product, header: list[str], types: Mapping[str, pa.DataType], reason: str) -> InputError:
    """Find what made reading fail: the block of lines, the line by halving it, and the cell, by the same parser."""
    first = number = first_line(product)
    with open_rows(product) as stream:
        while lines := stream.readlines(BLOCK_BYTES):
            if not parses(b"".join(lines), header, types):
                low, high = 0, len(lines)
                while high - low > 1:
                    middle = (low + high) // 2
                    if parses(b"".join(lines[low:middle]), header, types):
                        low = middle
                    else:
                        high = middle
                is_last = high == len(lines) and not stream.read(1)
                written = _as_written(product, number + low - first)
                why = _explain(product, lines[low], written, header, types, is_last)
                return InputError(f"{product}, line {number + low}{why}")
            number += len(lines)
    return InputError(f"{product}: not readable as a csv ({reason}).")


def _as_written(product: Product, row: int) -> bytes:
    """Line `row` (from 0, in its part) as it stands in the file, separators and decimal signs not exchanged."""
    with open_rows(replace(product, separator=b",", decimal=b".")) as stream:
        return next(islice(stream, row, None), b"")


def _cells(line: bytes, separator: bytes = b",") -> list[str]:
    text = line.decode("utf-8", "backslashreplace").strip("\r\n")
    return next(csv.reader([text], delimiter=separator.decode()), [])


def _explain(
    product: Product, line: bytes, written: bytes, header: list[str], types: Mapping[str, pa.DataType], is_last: bool
) -> str:
    try:
        cells, shown = _cells(line), _cells(written, product.separator)
    except csv.Error as error:
        return f": not readable as a csv ({error})."
    if len(cells) != len(header):
        advice = "the file seems cut off: download it again" if is_last else "correct the line"
        return f": {len(cells)} cells found, the header has {len(header)} columns; {advice}."
    column = next((name for name in types if not parses(line, header, {name: types[name]})), None)
    if column is None:
        return ": not readable as a csv."
    wanted = "text in UTF-8" if pa.types.is_string(types[column]) else "a number"
    cell = (shown if len(shown) == len(header) else cells)[header.index(column)]
    return f", column {column}: {cell[:60]!r} found, {wanted} is needed.{_advice(product, cell.strip())}"


def _advice(product: Product, cell: str) -> str:
    """What to do about a cell that is no number as it is written."""
    if product.decimal == b",":
        thousands = "thousands without points" if re.fullmatch(r"-?\d{1,3}(\.\d{3})+(,\d+)?", cell) else "all alike"
        return f" Decimals are written with commas in this file: write {thousands}." if "." in cell else ""
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", cell) and (product.separator == b"," or "." in cell):
        return " Write thousands without commas."
    if DECIMAL_COMMA.fullmatch(cell.encode()):
        if product.separator == b",":
            return " Commas stand between cells and in numbers: export it with semicolons, or with points in numbers."
        return " Where commas are its decimal signs, state decimal: ',' in ingest.products, or write points."
    return ""


def check_last_line(product: Product, tail: bytes) -> None:
    """Refuse a file that may end within a cell.

    Without a line end, a last cell of -1.4 may have been -1.42. Products write all series with the same number of
    decimals, so it is taken for whole if it has as many as the cell before it.
    """
    last = tail.splitlines()[-1] if tail else b""
    if tail.endswith((b"\n", b"\r")) or not last.strip():
        return
    decimals = [len(cell.strip().partition(b".")[2]) for cell in last.split(b",")[-2:]]
    if len(decimals) < 2 or decimals[0] != decimals[1] or decimals[1] == 0:
        cell = last.split(b",")[-1].decode("utf-8", "replace")
        raise InputError(
            f"{product}: the last line has no line end, its last cell {cell[:60]!r} may be cut off. Download the file "
            "again; if it is whole, add a line break at its end."
        )
