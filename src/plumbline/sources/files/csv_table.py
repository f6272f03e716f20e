"""Read a csv with a header as typed columns; on failure, name line, column and cell."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import NoReturn

import numpy as np
import pyarrow as pa

from plumbline.core.console import log
from plumbline.core.errors import InputError
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
from plumbline.sources.files.streams import POINT, CsvFile


def fail_at(product: CsvFile, row: int, column: str, found: object, wanted: str) -> NoReturn:
    """Refuse data row `row` (from 0, in its part) by its line in the file.

    Raises:
        InputError: always.
    """
    line, text = row + 2, b"?"
    if product.is_text:
        number = first_line_number(product)
        with open_rows(product) as stream:
            # Blank lines are no rows, so the line is counted, and only now that it is needed.
            filled = ((line, text) for line, text in enumerate(stream, number) if text.strip(b"\r\n"))
            line, text = next(islice(filled, row, None), (number + row, b"?"))
    # As spreadsheets leave them below a table.
    advice = "" if text.strip(b' \t\r\n",') else " All its cells are empty: remove the line."
    raise InputError(f"{product}, line {line}, column {column}: {found} found, {wanted}.{advice}")


def find_fault(product: CsvFile, header: list[str], types: Mapping[str, pa.DataType], reason: str) -> InputError:
    """Find what made reading fail, with the same parser: the block of lines, the line by halving, and the cell."""
    first = number = first_line_number(product)
    with open_rows(product) as stream:
        while lines := stream.readlines(BLOCK_BYTES):
            if not parses(b"".join(lines), header, types, product.missing):
                low, high = 0, len(lines)
                while high - low > 1:
                    middle = (low + high) // 2
                    if parses(b"".join(lines[low:middle]), header, types, product.missing):
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
    """Return line `row` (from 0, in its part) as in the file, with its own separators and decimal signs."""
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
    if again := _header_again(cells, header[: len(header) - product.behind]):
        return f": {again}"
    if len(cells) != len(header):
        advice = "the file seems cut off: download it again" if is_last else "correct the line"
        return f": {len(cells)} cells found, the header has {len(header) - product.behind} columns; {advice}."
    column = next((name for name in types if not parses(line, header, {name: types[name]}, product.missing)), None)
    if column is None:
        return ": not readable as a csv."
    wanted = "text in UTF-8" if pa.types.is_string(types[column]) else "a number"
    cell = (shown if len(shown) == len(header) else cells)[header.index(column)]
    return f", column {column}: {_unfit(product, cell, wanted)}"


def _header_again(cells: list[str], header: list[str]) -> str:
    """Return advice about a line that is a header, of this table or of another; empty for other lines."""
    names = [cell.strip() for cell in cells]
    if names[: len(header)] == header and not any(names[len(header) :]):
        return "the header stands there again, as after joining files. Remove the line."
    if 2 * len(set(names) & set(header)) > min(len(names), len(header)) > 1:
        return "the header of another table stands there, as after joining files. Give each table as a file of its own."
    return ""


def refuse_cell(product: CsvFile, row: int, column: str, cell: str) -> InputError:
    """Return the error about a cell of data row `row` (from 0) of a table that is no text, where a number is needed."""
    return InputError(f"{product}, line {row + 2}, column {column}: {_unfit(product, cell, 'a number')}")


def _unfit(product: CsvFile, cell: str, wanted: str) -> str:
    return f"{cell[:60]!r} found, {wanted} is needed.{_advice(product, cell.strip())}"


def _advice(product: CsvFile, cell: str) -> str:
    """Return advice about a cell that cannot be read as a number."""
    if product.decimal == b",":
        thousands = "thousands without points" if re.fullmatch(r"-?\d{1,3}(\.\d{3})+(,\d+)?", cell) else "all alike"
        return f" Decimals are written with commas in this file: write {thousands}." if "." in cell else ""
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", cell) and (product.separator == b"," or "." in cell):
        return " Write thousands without commas."
    if DECIMAL_COMMA.fullmatch(cell.encode()):
        if product.separator == b",":
            return " Commas stand between cells and in numbers: export it with semicolons, or with points in numbers."
        return " Where commas are its decimal signs, state decimal: ',' in ingest.products, or write points."
    if re.fullmatch(r"-?\d{1,3}([ \u00a0\u202f'\u2019]\d{3})+([.,]\d+)?", cell):
        return " Write thousands without a sign between them."
    if not any(character.isdigit() for character in cell):
        return f" If it stands for no value, state missing: [{cell[:20]!r}] in ingest.products."
    return ""


def warn_of_end(product: CsvFile, tail: bytes) -> None:
    """Warn if a file may end within a cell: without a line end, a last cell of -1.4 may have been -1.42.

    Many programs write no last line end. Those that write all cells of a column with as many decimals show a cut.
    """
    lines = [line for line in tail.splitlines() if line.strip()]
    if tail.endswith((b"\n", b"\r")) or len(lines) < 2:
        return
    cells = [line.split(b",")[-1 - product.behind].strip().strip(b'"') for line in lines]
    written = [cell for cell in cells if NUMBER.fullmatch(cell)]
    decimals = [len(cell.partition(b".")[2]) for cell in written]
    if len(decimals) > 1 and written[-1] is cells[-1] and decimals[-1] < min(decimals[:-1]):
        log.warning(
            "%s: its last line has no line end, and its last cell %r fewer decimals than the others of its column. If "
            "the file was cut off, download it again.",
            product,
            written[-1].decode()[:60],
        )


def ends_with_a_line(product: CsvFile) -> bool:
    """Return whether the last line has a line end, so that its last cell is whole."""
    last = b""
    with product.open() as stream:
        while data := stream.read(BLOCK_BYTES):
            last = data[-1:]
    return last in (b"\n", b"\r")


MAX_LAST_BYTES = 2**16
"""Of a block's end, kept to see whether the file was cut there."""
AHEAD = 2
"""Blocks in memory: one with the caller, one being parsed."""
NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f]")


def read_header(product: CsvFile, line: bytes | None = None) -> list[str]:
    """Read the names of the columns, without the spaces around them.

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
    names = next(csv.reader([text.lstrip("# ")])) + [""] * product.behind
    if len(names) == 1:
        for separator, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if separator in text:
                raise InputError(f"{product}, line 1: columns are separated by {called}, commas are needed.")
    return checked_names(product, names)


def checked_names(product: CsvFile, names: Sequence[str]) -> list[str]:
    """Return the names of a table's columns without the spaces around them.

    Raises:
        InputError: it names a column twice.
    """
    # Spreadsheets leave columns without a name behind the last one.
    names = [name.strip() or f"(column {number})" for number, name in enumerate(names, 1)]
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
        check_end: warn of a file that may end within a cell.

    Raises:
        InputError: a row is longer or shorter than the header, or a cell is not of its column's type.
    """
    tables = [table for _, table in stream_columns(product, header, types, check_end)]
    if not tables:
        return pa.schema([(name, types[name]) for name in types]).empty_table()
    return pa.concat_tables(tables)


def stream_columns(
    product: CsvFile, header: list[str], types: Mapping[str, pa.DataType], check_end: bool = True
) -> Iterator[tuple[int, pa.Table]]:
    """Yield blocks as `read_columns` reads them, each with the index of its first data row, for `fail_at`.

    The next block is parsed while the caller works on the one before.

    Raises:
        InputError: as `read_columns`, where reading gets to the fault.
    """
    if not product.is_text:
        yield from _rows_of(product, header, types)
        return
    first, last = 0, b""
    behind = header[len(header) - product.behind :]
    types = {**types, **dict.fromkeys(behind, pa.string())}
    with open_rows(product) as stream, ThreadPoolExecutor(1) as pool:
        waiting: deque[tuple[bytes, Future[pa.Table]]] = deque()
        coming = blocks(product, stream)
        while True:
            block = next(coming, None)
            if block is not None:
                waiting.append((block, pool.submit(parse, block, header, types, product.missing)))
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
                last = (last + text)[-MAX_LAST_BYTES:]  # a line without an end is a block of its own
                yield first, _without(product, table, behind, first)
                first += table.num_rows
    if check_end and first and product.end is None:
        warn_of_end(product, last)


def _rows_of(product: CsvFile, header: list[str], types: Mapping[str, pa.DataType]) -> Iterator[tuple[int, pa.Table]]:
    first = 0
    for table in product.columns(header, types):
        yield first, table
        first += table.num_rows


def _without(product: CsvFile, table: pa.Table, behind: list[str], first: int) -> pa.Table:
    """Return the table without the cells behind those that the header names; these must be empty."""
    for name in behind:
        filled = np.array([bool(cell and cell.strip()) for cell in table[name].to_pylist()], bool)
        if filled.any():
            row = int(np.argmax(filled))
            found = repr(table[name][row].as_py()[:60])
            fail_at(product, first + row, name, found, "no value is needed, as the header does not name it")
    return table.drop_columns(behind) if behind else table
