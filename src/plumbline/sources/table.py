"""A csv with a header as typed columns, read fast; where it cannot be, the line, the column and what stands there."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from typing import IO, NoReturn

import pyarrow as pa
import pyarrow.csv as pacsv

from plumbline.errors import InputError
from plumbline.sources.archive import Product

MISSING = ("", "nan", "NaN", "NULL", "null", "NA", "None", "N/A", "n/a", "#N/A", "#N/D", "-", "NAN")
"""Cells that stand for no value."""
MAX_HEADER_BYTES = 2**20
"""A table with thousands of epochs has a header of some 20 KB."""
BLOCK_BYTES = 2**24
"""Read at a time: some 10,000 points of 200 epochs."""
PARSED_BYTES = 2**21
"""Parsed at a time by one thread; a line must be shorter."""
MAX_LINE_BYTES = 2**25
MAX_LAST_BYTES = 2**16
"""Of a block's end, kept to see whether the file was cut there."""
AHEAD = 2
"""Blocks in memory: one with the caller, one being parsed."""
CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f]")
DECIMAL_COMMA = re.compile(rb'\s*"?-?\d*,\d+(e-?\d+)?"?\s*', re.IGNORECASE)


def read_header(product: Product) -> list[str]:
    """Names of the columns, without the spaces around them.

    Raises:
        InputError: the file is empty, is not text, is not separated by commas, or names a column twice.
    """
    with product.open() as stream:
        for _ in range(product.preamble):
            stream.readline(MAX_HEADER_BYTES)
        line = stream.readline(MAX_HEADER_BYTES)
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
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
    product: Product, header: list[str], types: Mapping[str, pa.DataType], check_end: bool = True
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
    product: Product, header: list[str], types: Mapping[str, pa.DataType], check_end: bool = True
) -> Iterator[tuple[int, pa.Table]]:
    """As `read_columns`, block by block: the index of the block's first data row, for `fail_at`, and the block.

    The next block is parsed while the caller works on the one before.

    Raises:
        InputError: as `read_columns`, where reading gets to the fault.
    """
    first, last = 0, b""
    with _open_rows(product) as stream, ThreadPoolExecutor(1) as pool:
        waiting: deque[tuple[bytes, Future[pa.Table]]] = deque()
        blocks = _blocks(product, stream)
        while True:
            block = next(blocks, None)
            if block is not None:
                waiting.append((block, pool.submit(_parse, block, header, types)))
            if not waiting:
                break
            if block is not None and len(waiting) < AHEAD:
                continue
            text, parsed = waiting.popleft()
            try:
                table = parsed.result()
            except (pa.ArrowException, UnicodeDecodeError) as error:
                raise _fault(product, header, types, str(error).splitlines()[0]) from None
            if table.num_rows:
                last = text[-MAX_LAST_BYTES:]
                yield first, table
                first += table.num_rows
    if check_end and first and product.end is None:
        _check_end(product, last)


def fail_at(product: Product, row: int, column: str, found: object, wanted: str) -> NoReturn:
    """Refuse data row `row` (from 0, in its part) by its line in the file.

    Raises:
        InputError: always.
    """
    number = _first_line(product)
    with _open_rows(product) as stream:
        # Blank lines are no rows, so the line is counted, and only now that it is needed.
        filled = (line for line, text in enumerate(stream, number) if text.strip(b"\r\n"))
        line = next(islice(filled, row, None), number + row)
    raise InputError(f"{product}, line {line}, column {column}: {found} found, {wanted}.")


@contextmanager
def _open_rows(product: Product) -> Iterator[IO[bytes]]:
    """Open at the first data line of the product, or of its part."""
    with product.open() as stream:
        if product.start:
            stream.seek(product.start - 1)
            stream.readline()  # what is left of a line that began before
        else:
            for _ in range(product.preamble + 1):
                stream.readline()
        yield stream


def _first_line(product: Product) -> int:
    """Number in the file of the line where `_open_rows` begins; counted only when a fault needs it."""
    if not product.start:
        return 2 + product.preamble
    number, left = 2, product.start - 1
    with product.open() as stream:
        while left and (text := stream.read(min(left, BLOCK_BYTES))):
            number += text.count(b"\n")
            left -= len(text)
    return number


def _blocks(product: Product, stream: IO[bytes]) -> Iterator[bytes]:
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


def _parse(lines: bytes, header: list[str], types: Mapping[str, pa.DataType]) -> pa.Table:
    # Each cell is compared with each of `MISSING`: a sixth of the time. Most files need none but the empty one, and
    # `nan` is a number for the parser.
    with suppress(pa.ArrowException):
        return _read(lines, header, types, MISSING[:1])
    return _read(lines, header, types, MISSING)


def _read(lines: bytes, header: list[str], types: Mapping[str, pa.DataType], missing: Sequence[str]) -> pa.Table:
    return pacsv.read_csv(
        pa.BufferReader(lines),
        read_options=pacsv.ReadOptions(column_names=header, block_size=PARSED_BYTES),
        convert_options=pacsv.ConvertOptions(
            column_types=dict(types), include_columns=list(types), null_values=list(missing)
        ),
    )


def _fault(product: Product, header: list[str], types: Mapping[str, pa.DataType], reason: str) -> InputError:
    """Find what made reading fail: the block of lines, the line by halving it, and the cell, by the same parser."""
    first = number = _first_line(product)
    with _open_rows(product) as stream:
        while lines := stream.readlines(BLOCK_BYTES):
            if not _parses(b"".join(lines), header, types):
                low, high = 0, len(lines)
                while high - low > 1:
                    middle = (low + high) // 2
                    if _parses(b"".join(lines[low:middle]), header, types):
                        low = middle
                    else:
                        high = middle
                is_last = high == len(lines) and not stream.read(1)
                written = _as_written(product, number + low - first)
                why = _explain(product, lines[low], written, header, types, is_last)
                return InputError(f"{product}, line {number + low}{why}")
            number += len(lines)
    return InputError(f"{product}: not readable as a csv ({reason}).")


def _parses(lines: bytes, header: list[str], types: Mapping[str, pa.DataType]) -> bool:
    try:
        _parse(lines, header, types)
    except (pa.ArrowException, UnicodeDecodeError):
        return False
    return True


def _as_written(product: Product, row: int) -> bytes:
    """Line `row` (from 0, in its part) as it stands in the file, separators and decimal signs not exchanged."""
    with _open_rows(replace(product, separator=b",", decimal=b".")) as stream:
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
    column = next((name for name in types if not _parses(line, header, {name: types[name]})), None)
    if column is None:
        return ": not readable as a csv."
    wanted = "text in UTF-8" if pa.types.is_string(types[column]) else "a number"
    cell = (shown if len(shown) == len(header) else cells)[header.index(column)]
    advice = ""
    if product.separator != b"," and product.decimal == b"." and DECIMAL_COMMA.fullmatch(cell.encode()):
        advice = " Where commas are its decimal signs, state decimal: ',' in ingest.products, or write points."
    return f", column {column}: {cell[:60]!r} found, {wanted} is needed.{advice}"


def _check_end(product: Product, tail: bytes) -> None:
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
