"""Read DePSI's csv export (TU Delft): one row a scatterer, positions in WGS 84, no line of sight."""

from __future__ import annotations

from plumbline import params
from plumbline.sources.crs import GLOBE
from plumbline.sources.files.archive import CsvFile
from plumbline.sources.points.epochs import find_days, warn_of_unread
from plumbline.sources.points.reader_base import PointSource, TableLayout, to_mm
from plumbline.sources.points.stated import stated_angles
from plumbline.sources.points.table_reader import open_csv_table

DAYS = "d_%Y%m%d"
OTHER_SERIES = ("a_", "h2ph_")
"""Amplitudes, and heights to phases."""
KNOWN = {"pnt_id", "pnt_lat", "pnt_lon", "pnt_height", "pnt_enscoh", "pnt_linear", "pnt_line", "pnt_pixel"}


def is_depsi(header: list[str]) -> bool:
    """Return whether the names of columns are those of a DePSI export, complete or not."""
    return len(KNOWN.intersection(header)) >= 3


def open_depsi(product: CsvFile, header: list[str], about: params.Product, crs: str | None) -> PointSource:
    """Open a DePSI export; `about` must state the line of sight.

    Raises:
        InputError: a column is missing or a day impossible, or `about` lacks an angle; what concerns rows, where
            reading gets to them.
    """
    days = find_days(str(product), header, DAYS)
    others = (name for name in header if name not in days and not name.startswith(OTHER_SERIES))
    warn_of_unread(str(product), others, "d_YYYYMMDD")
    layout = TableLayout(
        days=days,
        x="pnt_lon",
        y="pnt_lat",
        crs=about.crs or GLOBE,
        to_mm=to_mm(about, "m"),
        los=stated_angles(product, about),
        missing=about.missing,
        point_id="pnt_id",
        height="pnt_height" if "pnt_height" in header else None,
        coherence="pnt_enscoh" if "pnt_enscoh" in header else None,
    )
    return open_csv_table(product, header, layout, about.track or product.path.stem, crs)
