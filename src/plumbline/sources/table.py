"""A csv with a header as typed columns, read fast; where it cannot be, the line, the column and what stands there."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from itertools import islice
from typing import IO, NoReturn

import pyarrow as pa
import pyarrow.csv as pacsv

from plumbline.errors import InputError
from plumbline.sources.archive import Product

MISSING = ("", "nan", "NaN", "NULL", "null", "NA")
"""Cells that stand for no value."""
MAX_HEADER_BYTES = 2**20
"""A table with thousands of epochs has a header of some 20 KB."""
BLOCK_BYTES = 2**22
"""Read and parsed at a time, by one thread; a line must be shorter."""
CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f]")


def read_header(product: Product) -> list[str]:
    """Names of the columns, without the spaces around them.

    Raises:
        InputError: the file is empty, is not text, is not separated by commas, or names a column twice.
    """
    with product.open() as stream:
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
    names = [name.strip() for name in next(csv.reader([text]))]
    if len(names) == 1:
        for separator, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if separator in text:
                raise InputError(f"{product}, line 1: columns are separated by {called}, commas are needed.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{product}, line 1: column {', '.join(map(repr, twice[:5]))} stands there more than once.")
    return names


def read_columns(
    product: Product, header: list[str], types: Mapping[str, pa.DataType], check_end: bool = True
) -> pa.Table:
    """Read the columns named in `types` as these types; cells of `MISSING` are null in columns of numbers.

    Args:
        product: what to read.
        header: its `read_header`.
        types: the columns to read; others are only counted.
        check_end: refuse a file that may end within a cell.

    Raises:
        InputError: a row is longer or shorter than the header, a cell is not of its column's type, or the file ends
            within a line.
    """
    with product.open() as stream:
        tail = _Tail(stream)
        try:
            table = _parse(io.BufferedReader(tail, BLOCK_BYTES), header, types, skip_rows=1)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            reason = str(error).splitlines()[0]
        else:
            if check_end and table.num_rows:
                _check_end(product, tail.last)
            return table
    raise _fault(product, header, types, reason)


def fail_at(product: Product, row: int, column: str, found: object, wanted: str) -> NoReturn:
    """Refuse data row `row` (from 0) by its line in the file.

    Raises:
        InputError: always.
    """
    with product.open() as stream:
        # Blank lines are no rows, so the line is counted, and only now that it is needed.
        filled = (number for number, line in enumerate(stream, 1) if line.strip(b"\r\n"))
        line = next(islice(filled, row + 1, None), row + 2)
    raise InputError(f"{product}, line {line}, column {column}: {found} found, {wanted}.")


def _parse(
    source: IO[bytes] | pa.NativeFile, header: list[str], types: Mapping[str, pa.DataType], skip_rows: int = 0
) -> pa.Table:
    return pacsv.read_csv(
        source,
        read_options=pacsv.ReadOptions(column_names=header, skip_rows=skip_rows, block_size=BLOCK_BYTES),
        convert_options=pacsv.ConvertOptions(
            column_types=dict(types), include_columns=list(types), null_values=list(MISSING)
        ),
    )


def _fault(product: Product, header: list[str], types: Mapping[str, pa.DataType], reason: str) -> InputError:
    """Find what made reading fail: the block of lines, the line by halving it, and the cell, by the same parser."""
    number = 2
    with product.open() as stream:
        stream.readline()
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
                return InputError(f"{product}, line {number + low}{_explain(lines[low], header, types, is_last)}")
            number += len(lines)
    return InputError(f"{product}: not readable as a csv ({reason}).")


def _parses(lines: bytes, header: list[str], types: Mapping[str, pa.DataType]) -> bool:
    try:
        _parse(pa.BufferReader(lines), header, types)
    except (pa.ArrowException, UnicodeDecodeError):
        return False
    return True


def _explain(line: bytes, header: list[str], types: Mapping[str, pa.DataType], is_last: bool) -> str:
    try:
        cells = next(csv.reader([line.decode("utf-8", "backslashreplace").strip("\r\n")]))
    except csv.Error as error:
        return f": not readable as a csv ({error})."
    if len(cells) != len(header):
        advice = "the file seems cut off: download it again" if is_last else "correct the line"
        return f": {len(cells)} cells found, the header has {len(header)} columns; {advice}."
    column = next((name for name in types if not _parses(line, header, {name: types[name]})), None)
    if column is None:
        return ": not readable as a csv."
    wanted = "text in UTF-8" if pa.types.is_string(types[column]) else "a number"
    return f", column {column}: {cells[header.index(column)][:60]!r} found, {wanted} is needed."


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


class _Tail(io.RawIOBase):
    """Passes a stream on and remembers how it ended."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.last = stream, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        self.last = (self.last + data if len(data) < 2**16 else data)[-(2**16) :]
        buffer[: len(data)] = data
        return len(data)
