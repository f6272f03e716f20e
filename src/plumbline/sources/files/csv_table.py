"""Read a csv with a header as typed columns; where that fails, name the line, the column and the cell."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import NoReturn

import pyarrow as pa

from plumbline.core.errors import InputError
from plumbline.sources.files.archive import POINT, CsvFile
from plumbline.sources.files.csv_lines import (
    BLOCK_BYTES,
    DECIMAL_COMMA,
    MAX_HEADER_BYTES,
    blocks,
    first_line_number,
    open_rows,
    parse,
    parses,
)


def fail_at(product: CsvFile, row: int, column: str, found: object, wanted: str) -> NoReturn:
    """Refuse data row `row` (from 0, in its part) by its line in the file.

    Raises:
        InputError: always.
    """
    number = first_line_number(product)
    with open_rows(product) as stream:
        # Blank lines are no rows, so the line is counted, and only now that it is needed.
        filled = ((line, text) for line, text in enumerate(stream, number) if text.strip(b"\r\n"))
        line, text = next(islice(filled, row, None), (number + row, b"?"))
    # As spreadsheets leave them below a table.
    advice = "" if text.strip(b' \t\r\n",') else " All its cells are empty: remove the line."
    raise InputError(f"{product}, line {line}, column {column}: {found} found, {wanted}.{advice}")


def find_fault(product: CsvFile, header: list[str], types: Mapping[str, pa.DataType], reason: str) -> InputError:
    """Find what made reading fail: the block of lines, the line by halving it, and the cell, by the same parser."""
    first = number = first_line_number(product)
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


def _as_written(product: CsvFile, row: int) -> bytes:
    """Line `row` (from 0, in its part) as it stands in the file, separators and decimal signs not exchanged."""
    with open_rows(replace(product, separator=b",", decimal=b".")) as stream:
        return next(islice(stream, row, None), b"")


def _cells(line: bytes, separator: bytes = b",") -> list[str]:
    text = line.decode("utf-8", "backslashreplace").strip("\r\n")
    return next(csv.reader([text], delimiter=separator.decode()), [])


def _explain(
    product: CsvFile, line: bytes, written: bytes, header: list[str], types: Mapping[str, pa.DataType], is_last: bool
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


def _advice(product: CsvFile, cell: str) -> str:
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


def check_last_line(product: CsvFile, tail: bytes) -> None:
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


MAX_LAST_BYTES = 2**16
"""Of a block's end, kept to see whether the file was cut there."""
AHEAD = 2
"""Blocks in memory: one with the caller, one being parsed."""
CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f]")


def read_header(product: CsvFile, line: bytes | None = None) -> list[str]:
    """Names of the columns, without the spaces around them.

    Args:
        product: the csv. line: the one they stand in, where it has been read.

    Raises:
        InputError: the file is empty, is not text, is not separated by commas, or names a column twice.
    """
    if line is None:
        with product.open() as stream:
            for _ in range(product.preamble):
                stream.readline(MAX_HEADER_BYTES)
            line = stream.readline(MAX_HEADER_BYTES)
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n").replace(POINT.decode(), ".")
    except UnicodeDecodeError:
        raise InputError(f"{product}: not a csv (its first line is not text).") from None
    if not text.strip():
        raise InputError(f"{product}: the first line is empty, the names of the columns are needed there.")
    if CONTROL_CHARACTER.search(text):
        raise InputError(f"{product}: not a csv (its first line holds control characters).")
    if len(line) == MAX_HEADER_BYTES:
        raise InputError(f"{product}: not a csv (no line end in its first {MAX_HEADER_BYTES:,} bytes).")
    names = [name.strip() for name in next(csv.reader([text.lstrip("# ")]))]
    if len(names) == 1:
        for separator, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if separator in text:
                raise InputError(f"{product}, line 1: columns are separated by {called}, commas are needed.")
    # Spreadsheets leave columns without a name behind the last one.
    names = [name or f"(column {number})" for number, name in enumerate(names, 1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{product}, line 1: column {', '.join(map(repr, twice[:5]))} stands there more than once.")
    return names


def read_columns(
    product: CsvFile, header: list[str], types: Mapping[str, pa.DataType], check_end: bool = True
) -> pa.Table:
    """Read the columns named in `types` as these types; cells of `MISSING` are null or NaN in columns of numbers.

    Args:
        product: what to read.
        header: its `read_header`.
        types: the columns to read; others are only counted.
        check_end: refuse a file that may end within a cell.

    Raises:
        InputError: a row is longer or shorter than the header, a cell is not of its column's type, or the file ends
            within a line.
    """
    tables = [table for _, table in stream_columns(product, header, types, check_end)]
    if not tables:
        return pa.schema([(name, types[name]) for name in types]).empty_table()
    return pa.concat_tables(tables)


def stream_columns(
    product: CsvFile, header: list[str], types: Mapping[str, pa.DataType], check_end: bool = True
) -> Iterator[tuple[int, pa.Table]]:
    """As `read_columns`, block by block: the index of the block's first data row, for `fail_at`, and the block.

    The next block is parsed while the caller works on the one before.

    Raises:
        InputError: as `read_columns`, where reading gets to the fault.
    """
    first, last = 0, b""
    with open_rows(product) as stream, ThreadPoolExecutor(1) as pool:
        waiting: deque[tuple[bytes, Future[pa.Table]]] = deque()
        coming = blocks(product, stream)
        while True:
            block = next(coming, None)
            if block is not None:
                waiting.append((block, pool.submit(parse, block, header, types)))
            if not waiting:
                break
            if block is not None and len(waiting) < AHEAD:
                continue
            text, parsed = waiting.popleft()
            try:
                table = parsed.result()
            except (pa.ArrowException, UnicodeDecodeError) as error:
                raise find_fault(product, header, types, str(error).splitlines()[0]) from None
            if table.num_rows:
                last = text[-MAX_LAST_BYTES:]
                yield first, table
                first += table.num_rows
    if check_end and first and product.end is None:
        check_last_line(product, last)
