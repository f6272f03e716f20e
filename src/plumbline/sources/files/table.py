"""A csv with a header as typed columns, read fast; where it cannot be, see `table_fault`."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from plumbline.core.errors import InputError
from plumbline.sources.files.archive import POINT, Product
from plumbline.sources.files.cells import parse
from plumbline.sources.files.csv_table import check_last_line, fault
from plumbline.sources.files.lines import MAX_HEADER_BYTES, blocks, open_rows

MAX_LAST_BYTES = 2**16
"""Of a block's end, kept to see whether the file was cut there."""
AHEAD = 2
"""Blocks in memory: one with the caller, one being parsed."""
CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f]")


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
                raise fault(product, header, types, str(error).splitlines()[0]) from None
            if table.num_rows:
                last = text[-MAX_LAST_BYTES:]
                yield first, table
                first += table.num_rows
    if check_end and first and product.end is None:
        check_last_line(product, last)
