"""Read StaMPS time series as the export script of StaMPS-Visualizer writes them."""

from __future__ import annotations

import math
import re
from datetime import date

import numpy as np
import pyarrow as pa

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.crs import GLOBE
from plumbline.sources.files.archive import CsvFile
from plumbline.sources.files.csv_table import fail_at, stream_columns
from plumbline.sources.points.epochs import FIRST_YEAR, LAST_YEAR
from plumbline.sources.points.reader_base import PointSource, TableLayout, to_mm
from plumbline.sources.points.stated import stated_angles
from plumbline.sources.points.table_reader import open_csv_table

NUMBERED = re.compile(r"(.*?)_ *([0-9]{1,5})")
FIXED = 3
"""Columns before those of the epochs."""
MATLAB_TO_ORDINAL = 366
"""MATLAB counts days from year 0, Python from year 1."""
WRITTEN_LESS = 1
"""What the export script takes off each day number."""


def is_stamps(header: list[str]) -> bool:
    """Return whether the columns are those of one matrix, numbered from 1 without a gap, as MATLAB names them."""
    return _numbered(header) is not None


def open_stamps(product: CsvFile, header: list[str], about: params.Product, crs: str | None) -> PointSource:
    """Open a StaMPS export; `about` must state the line of sight.

    Raises:
        InputError: the columns are not numbered, the metadata row is not one, or `about` lacks an angle; what concerns
            rows, where reading gets to them.
    """
    columns = _numbered(header)
    if columns is None:
        raise InputError(
            f"{product}, line 1: not a StaMPS export, whose columns are numbered (export_res_ 1, export_res_ 2, …); "
            f"the header has {', '.join(header)[:300]}."
        )
    layout = TableLayout(
        days=_days_of_header(product, header, columns),
        x=columns[0],
        y=columns[1],
        crs=about.crs or GLOBE,
        to_mm=to_mm(about, "mm"),
        los=stated_angles(product, about),
        missing=about.missing,
        skip=1,
    )
    return open_csv_table(product, header, layout, about.track or product.path.stem, crs)


def _numbered(header: list[str]) -> list[str] | None:
    """Return the columns in the order of their numbers; None if they are not one numbered matrix."""
    parts = [NUMBERED.fullmatch(name) for name in header]
    if len(header) <= FIXED or not all(parts):
        return None
    number = {int(part[2]): part[0] for part in parts if part}
    if len({part[1] for part in parts if part}) > 1 or sorted(number) != list(range(1, len(header) + 1)):
        return None
    return [number[index] for index in sorted(number)]


def _days_of_header(product: CsvFile, header: list[str], columns: list[str]) -> dict[str, np.datetime64]:
    rows = stream_columns(product, header, dict.fromkeys(columns, pa.float64()), check_end=False)
    _, table = next(rows, (0, None))
    if table is None:
        raise InputError(f"{product}: it has a header, but no points. Download it again, or leave it out.")
    cells = [table[name][0].as_py() for name in columns]
    meta = [None if cell is None or math.isnan(cell) else cell for cell in cells]
    if meta[FIXED - 1] is not None:
        fail_at(
            product, 0, columns[FIXED - 1], f"{meta[FIXED - 1]:.10g}", "the first row must be StaMPS's metadata: NaN"
        )
    days: dict[str, np.datetime64] = {}
    for name, number in zip(columns[FIXED:], meta[FIXED:], strict=True):
        ordinal = (number or 0) + WRITTEN_LESS - MATLAB_TO_ORDINAL
        first, last = date(FIRST_YEAR, 1, 1).toordinal(), date(LAST_YEAR, 12, 31).toordinal()
        if not first <= ordinal <= last or ordinal != int(ordinal):
            found = "no value" if number is None else f"{number:.10g}"
            fail_at(
                product, 0, name, found, f"a day number of MATLAB of the years {FIRST_YEAR} to {LAST_YEAR} is needed"
            )
        days[name] = np.datetime64(date.fromordinal(int(ordinal)), "D")
    return days
