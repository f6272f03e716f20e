"""Read a csv with a header as typed columns; on failure, name line, column and cell."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, islice
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from plumbline.core.errors import InputError
from plumbline.sources.files.csv_lines import (
    DECIMAL_COMMA,
    MAX_HEADER_BYTES,
    blocks,
    first_line_number,
    open_rows,
)
from plumbline.sources.files.streams import ColumnFile, CsvFile

MISSING = ("", "nan", "NaN", "NULL", "null", "NA", "None", "N/A", "n/a", "#N/A", "#N/D", "-", "NAN")
"""Texts of cells without a value."""
PARSED_BYTES = 2**21
"""Number of bytes parsed in one step by one thread; a line must be shorter."""
FAULT = re.compile(r"(In CSV column #(?P<column>\d+): |CSV parse error: )Row #(?P<row>\d+): ")
"""Pattern of the place of a fault in Arrow's messages."""
CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f]")


def fail_at(
    product: CsvFile, row: int, column: str, cell: object, wanted: str, *, key: str
) -> NoReturn:
    """Refuse data row `row` (from 0, in its part) by its line in the file; `key`: of the
    check, as of `InputError`.

    Raises:
        InputError: always.
    """
    if isinstance(product, ColumnFile):
        raise InputError(
            f"{product}, row {row + 1}, column {column}: {cell} found, {wanted}.", key=key
        )
    line, text, _ = _line_of(product, row)
    # As spreadsheets leave them below a table.
    advice = "" if text.strip(b' \t\r\n",') else " All its cells are empty: remove the line."
    raise InputError(
        f"{product}, line {line}, column {column}: {cell} found, {wanted}.{advice}", key=key
    )


def _line_of(product: CsvFile, row: int) -> tuple[int, bytes, bool]:
    """Return the number and the bytes of the line of data row `row` (from 0, in its part),
    and whether it is the last.

    Blank lines are no rows, so lines are counted, and only where the number is needed.
    """
    number = first_line_number(product)
    with open_rows(product) as stream:
        filled = ((line, text) for line, text in enumerate(stream, number) if text.strip(b"\r\n"))
        line, text = next(islice(filled, row, None), (number + row, b"?"))
        return line, text, next(filled, None) is None


def _find_fault(product: CsvFile, header: list[str], reason: str, first: int) -> InputError:
    """Explain why a block that begins with data row `first` cannot be parsed.

    Args:
        product: the csv. header: names of its columns.
        reason: Arrow's, from a parser of one thread, which counts rows from 1.
        first: see above.
    """
    match = FAULT.search(reason)
    if match is None:
        return InputError(
            f"{product}: not readable as a csv ({reason.splitlines()[0]}).", key="csv.unreadable"
        )
    number, text, is_last = _line_of(product, first + int(match["row"]) - 1)
    place = f"{product}, line {number}"
    try:
        cells = next(
            csv.reader(
                [text.decode("utf-8", "backslashreplace").strip("\r\n")],
                delimiter=product.separator.decode(),
            ),
            [],
        )
    except csv.Error as error:
        return InputError(f"{place}: not readable as a csv ({error}).", key="csv.unreadable")
    if match["column"] is None or len(cells) != len(header):
        advice = "the file seems cut off: download it again" if is_last else "correct the line"
        return InputError(
            f"{place}: {len(cells)} cells found, the header has {len(header) - product.behind} "
            f"columns; {advice}.",
            key="csv.cell_count",
        )
    column = int(match["column"])
    wanted, key = (
        ("text in UTF-8", "csv.not_utf8") if "UTF8" in reason else ("a number", "csv.not_a_number")
    )
    return InputError(
        f"{place}, column {header[column]}: {_describe_unfit(product, cells[column], wanted)}",
        key=key,
    )


def refuse_cell(product: CsvFile, row: int, column: str, cell: str) -> InputError:
    """Return the error about a cell of row `row` (from 0) of a binary table that is no number."""
    return InputError(
        f"{product}, row {row + 1}, column {column}: {_describe_unfit(product, cell, 'a number')}",
        key="csv.not_a_number",
    )


def _describe_unfit(product: CsvFile, cell: str, wanted: str) -> str:
    return f"{cell[:60]!r} found, {wanted} is needed.{_advise_number(product, cell.strip())}"


def _advise_number(product: CsvFile, cell: str) -> str:
    """Return advice about a cell that cannot be read as a number."""
    if product.separator != b"," and DECIMAL_COMMA.fullmatch(cell.encode()):
        return (
            " Where commas are its decimal signs, state decimal: ',' in ingest.products, or "
            "write points."
        )
    if not any(character.isdigit() for character in cell):
        return f" If it means no value, state missing: [{cell[:20]!r}] in ingest.products."
    return ""


def read_header(product: CsvFile, line: bytes | None = None) -> list[str]:
    """Read the names of the columns, without the spaces around them.

    Args:
        product: the csv. line: their line, if it has been read.

    Raises:
        InputError: the file is empty, is not text, or names a column twice.
    """
    if line is None:
        with product.open() as stream:
            for _ in range(product.preamble):
                stream.readline(MAX_HEADER_BYTES)
            line = stream.readline(MAX_HEADER_BYTES)
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise InputError(
            f"{product}: not a csv (its first line is not text).", key="csv.not_text"
        ) from None
    for is_wrong, problem, key in (
        (
            not text.strip(),
            "the first line is empty. Write the names of the columns there",
            "csv.no_header",
        ),
        (
            CONTROL_CHARACTER.search(text),
            "not a csv (control characters in its first line). If its lines end as those of old "
            "Macintoshes, save it with other line ends",
            "csv.control_characters",
        ),
        (
            len(line) == MAX_HEADER_BYTES,
            f"not a csv (no line end in its first {MAX_HEADER_BYTES:,} bytes)",
            "csv.long_header",
        ),
    ):
        if is_wrong:
            raise InputError(f"{product}: {problem}.", key=key)
    try:
        names = next(csv.reader([text.lstrip("# ")], delimiter=product.separator.decode()))
    except csv.Error as error:
        raise InputError(
            f"{product}: not a csv (its first line: {error}).", key="csv.unreadable"
        ) from None
    return checked_names(product, names + [""] * product.behind)


def checked_names(product: CsvFile, names: Sequence[str]) -> list[str]:
    """Return the names of a table's columns without the spaces around them.

    Raises:
        InputError: it names a column twice.
    """
    # Spreadsheets leave columns without a name behind the last one.
    names = [name.strip() or f"(column {number})" for number, name in enumerate(names, 1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"{product}, line 1: column {', '.join(map(repr, twice[:5]))} occurs more than once.",
            key="csv.repeated_column",
        )
    return names


def read_columns(product: CsvFile, header: list[str], types: Mapping[str, pa.DataType]) -> pa.Table:
    """Read the columns named in `types` as these types; cells of `MISSING` are null or NaN
    in columns of numbers.

    Args:
        product: what to read.
        header: its `read_header`.
        types: the columns to read; others are only counted.

    Raises:
        InputError: a row is longer or shorter than the header, or a cell is not of its
            column's type.
    """
    tables = [table for _, table in stream_columns(product, header, types)]
    if not tables:
        return pa.schema([(name, types[name]) for name in types]).empty_table()
    return pa.concat_tables(tables)


def stream_columns(
    product: CsvFile, header: list[str], types: Mapping[str, pa.DataType]
) -> Iterator[tuple[int, pa.Table]]:
    """Yield blocks as `read_columns` reads them, each with the index of its first data row,
    for `fail_at`.

    The next block is parsed while the caller works on the one before.

    Raises:
        InputError: as `read_columns`, where reading gets to the fault.
    """
    if isinstance(product, ColumnFile):
        yield from product.columns(header, types)
        return
    first = 0
    behind = dict.fromkeys(header[len(header) - product.behind :], pa.string())
    with open_rows(product) as stream, ThreadPoolExecutor(1) as pool:
        parsed = None
        for block in chain(blocks(product, stream), [bytearray()]):
            coming = (
                pool.submit(_parse_block, product, block, header, {**types, **behind})
                if block
                else None
            )
            if parsed is not None:
                try:
                    table = parsed.result()
                except pa.ArrowException as error:
                    raise _find_fault(product, header, str(error), first) from None
                _check_behind(product, table, list(behind), first)
                if table.num_rows:
                    yield first, table.select(list(types))
                first += table.num_rows
            parsed = coming


def _check_behind(product: CsvFile, table: pa.Table, behind: list[str], first: int) -> None:
    """Refuse text in the cells behind those that the header names, of rows from data row
    `first` on."""
    for name in behind:
        row = pc.index(pc.not_equal(pc.utf8_trim_whitespace(table[name]), ""), True).as_py()
        if row >= 0:
            wanted = "no value, as the header does not name it, is needed"
            fail_at(
                product,
                first + row,
                name,
                repr(table[name][row].as_py()[:60]),
                wanted,
                key="csv.unnamed_value",
            )


def _parse_block(
    product: CsvFile, lines: bytearray, header: list[str], types: Mapping[str, pa.DataType]
) -> pa.Table:
    """Parse the columns named in `types` as these types; cells of `MISSING` are null, or
    NaN in columns of numbers.

    Raises:
        pa.ArrowException: a line has more or fewer cells than the header, or a cell another
            type; it names the row.
    """

    def parse(missing: Sequence[str], use_threads: bool = True) -> pa.Table:
        return pacsv.read_csv(
            pa.BufferReader(lines),
            read_options=pacsv.ReadOptions(
                column_names=header, block_size=PARSED_BYTES, use_threads=use_threads
            ),
            parse_options=pacsv.ParseOptions(delimiter=product.separator.decode()),
            convert_options=pacsv.ConvertOptions(
                column_types=dict(types),
                include_columns=list(types),
                null_values=list(missing),
                decimal_point=product.decimal.decode(),
            ),
        )

    # Each cell is compared with each of `MISSING`: a sixth of the time. Most files need none
    # but the empty one, and `nan` is a number for the parser.
    with suppress(pa.ArrowException):
        return parse(MISSING[:1])
    missing = (*MISSING, *product.missing)
    with suppress(pa.ArrowException):
        return parse(missing)
    return parse(missing, use_threads=False)  # to fail at a row that has a number
