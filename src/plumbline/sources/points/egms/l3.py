"""Read the European Ground Motion Service's L3 (ortho) products: motion up or east, in cells of 100 m."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePosixPath

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.files.archive import CsvFile
from plumbline.sources.points.egms.l2 import COHERENCE, CRS, HEIGHTS, LOS, RANGES, RMSE, is_egms
from plumbline.sources.points.epochs import find_days, warn_of_unread
from plumbline.sources.points.reader_base import PointSource, TableLayout, noted
from plumbline.sources.points.table_reader import open_csv_table

DIRECTIONS = {"up": (0.0, 0.0, 1.0), "east": (1.0, 0.0, 0.0)}
LETTERS = {"U": "up", "E": "east"}
CELLS = "an EGMS L3 product: its points are means over cells of 100 m"


def is_ortho(header: list[str]) -> bool:
    """Return whether the columns are those of an EGMS product without any line of sight."""
    return is_egms(header) and not {*LOS, COHERENCE, "incidence_angle", "mp_type"}.intersection(header)


def open_ortho(product: CsvFile, header: list[str], about: params.Product, crs: str | None) -> PointSource:
    """Open an L3 product as a track with a line of sight that points up, or east.

    Raises:
        InputError: a column is missing or a day impossible, or nothing says which component it is; what concerns rows,
            where reading gets to them.
    """
    component, notes = find_component(product, about)
    layout = replace(ortho_layout(product, header, component), missing=about.missing)
    return noted(open_csv_table(product, header, layout, about.track or product.path.stem, crs), product, notes)


def ortho_layout(product: CsvFile, header: list[str], component: str) -> TableLayout:
    """Return the layout of the columns.

    Raises:
        InputError: a column named by eight digits is no day.
    """
    days = find_days(str(product), header, "%Y%m%d")
    warn_of_unread(str(product), [name for name in header if name not in days], "YYYYMMDD")
    return TableLayout(
        days=days,
        x="easting",
        y="northing",
        crs=CRS,
        to_mm=1.0,
        los=DIRECTIONS[component],
        point_id="pid",
        height=next((name for name in HEIGHTS if name in header), HEIGHTS[0]),
        rmse=next((name for name in RMSE if name in header), None),
        x_range=RANGES["easting"],
        y_range=RANGES["northing"],
        cells=True,
    )


def find_component(product: CsvFile, about: params.Product) -> tuple[str, tuple[str, ...]]:
    """Return `up` or `east`, as stated or by the letter in the csv's or the file's name, and notes on the choice.

    Raises:
        InputError: neither says it, or the two names contradict each other.
    """
    if about.component is not None:
        return about.component, (CELLS,)
    names = [product.path.stem, *([PurePosixPath(product.member).stem] if product.member else [])]
    said = {LETTERS[part] for name in names for part in re.split(r"[_\-. ]", name) if part in LETTERS}
    if len(said) != 1:
        found = "both E and U stand" if said else "neither E nor U stands"
        raise InputError(
            f"{product}: an EGMS L3 product, whose columns do not say whether it is up or east, and {found} in its "
            f"name. Write these lines into {params.PARAMS_FILE}:\n"
            f"ingest:\n  products:\n    {product.path.name!r}: {{component: up}}  # or east"
        )
    (component,) = said
    return component, (CELLS, f"by its name, the motion is {component}")
