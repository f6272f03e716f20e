"""Lines of a csv as typed columns, by a fast parser."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from plumbline.sources.files.archive import POINT

MISSING = ("", "nan", "NaN", "NULL", "null", "NA", "None", "N/A", "n/a", "#N/A", "#N/D", "-", "NAN")
"""Cells that stand for no value."""
PARSED_BYTES = 2**21
"""Parsed at a time by one thread; a line must be shorter."""
DECIMAL_POINT = re.compile(rb'\s*"?-?\d*\.\d+(e[-+]?\d+)?"?\s*', re.IGNORECASE)
DECIMAL_COMMA = re.compile(rb'\s*"?-?\d*,\d+(e-?\d+)?"?\s*', re.IGNORECASE)


def parse(lines: bytes, header: list[str], types: Mapping[str, pa.DataType]) -> pa.Table:
    """The columns named in `types` as these types; cells of `MISSING` are null, or NaN in columns of numbers.

    Raises:
        ArrowException, UnicodeDecodeError: a line has more or fewer cells than the header, or a cell another type.
    """
    # Each cell is compared with each of `MISSING`: a sixth of the time. Most files need none but the empty one, and
    # `nan` is a number for the parser.
    table = None
    with suppress(pa.ArrowException):
        table = _read(lines, header, types, MISSING[:1])
    if table is None:
        table = _read(lines, header, types, MISSING)
    return _with_points(table) if POINT in lines else table


def _read(lines: bytes, header: list[str], types: Mapping[str, pa.DataType], missing: Sequence[str]) -> pa.Table:
    return pacsv.read_csv(
        pa.BufferReader(lines),
        read_options=pacsv.ReadOptions(column_names=header, block_size=PARSED_BYTES),
        convert_options=pacsv.ConvertOptions(
            column_types=dict(types), include_columns=list(types), null_values=list(missing)
        ),
    )


def _with_points(table: pa.Table) -> pa.Table:
    """Texts as they stand in a file whose decimal sign is a comma."""
    for index, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            turned = pc.replace_substring(table.column(index), POINT.decode(), ".")
            table = table.set_column(index, field, turned)
    return table


def parses(lines: bytes, header: list[str], types: Mapping[str, pa.DataType]) -> bool:
    """Whether `parse` can."""
    try:
        parse(lines, header, types)
    except (pa.ArrowException, UnicodeDecodeError):
        return False
    return True
