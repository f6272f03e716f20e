"""Recognise a table of a published layout by its header, and open it."""

from __future__ import annotations

from functools import partial

import numpy as np

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.crs import GLOBE, PLANE, is_globe, ranges
from plumbline.sources.files.archive import CsvFile
from plumbline.sources.points.epochs import find_days, warn_of_unread
from plumbline.sources.points.reader_base import MIN_EPOCHS, Angles, PointSource, TableLayout, to_mm
from plumbline.sources.points.stated import ANGLES, unanswered
from plumbline.sources.points.table_reader import open_csv_table
from plumbline.sources.points.tables.layouts import (
    EASTING,
    LATITUDE,
    LINE_OF_SIGHT,
    LONGITUDE,
    NORTHING,
    Layout,
    find_column,
)
from plumbline.sources.points.vector_layer import PointLayer, check_stated_crs, cut_advice


def is_layout(layout: Layout, header: list[str]) -> bool:
    """Return whether the names of columns are those of this layout."""
    if any(find_column(header, [mark]) is None for mark in layout.marks):
        return False
    if layout.one_of and find_column(header, layout.one_of) is None:
        return False
    if find_column(header, layout.lacks) is not None:
        return False
    if not layout.only_days:
        return True
    others = [name for name in header if not name.startswith("geometry_")]
    try:
        return MIN_EPOCHS <= len(others) == len(find_days("", others, layout.days[0]))
    except InputError:  # one is no day
        return False


def open_layout(
    layout: Layout, product: CsvFile, header: list[str], about: params.Product, crs: str | None
) -> PointSource:
    """Open a table of a published layout.

    Args:
        layout: which one.
        product: the csv, or the layer of points.
        header: names of its columns.
        about: what `ingest.products` says of it.
        crs: projected CRS that is wanted; None: that of the file, or the UTM zone of its middle.

    Raises:
        InputError: `about` lacks something that the layout does not say (one message names all of it), a column of
            places is missing, or there are too few epochs; what concerns rows, where reading gets to them.
    """
    find = partial(find_column, header)
    x, y, own_crs = _places(product, header)
    stated = {
        "crs": about.crs or own_crs,
        "incidence_deg": 0.0 if layout.has_view else about.incidence_deg,
        "heading_deg": 0.0 if layout.has_view else about.heading_deg,
        "units": layout.unit or about.units,
        "positive": layout.positive or about.positive,
    }
    missing = [key for key in (*ANGLES, "crs", "units", "positive") if stated[key] is None]
    if missing:
        raise unanswered(product, missing)
    crs_of_file = about.crs or own_crs or GLOBE
    if isinstance(product, PointLayer) and x in product.places:
        check_stated_crs(product, crs_of_file)
    globe = is_globe(str(product), crs_of_file)
    x_range, y_range = (PLANE, PLANE) if globe else ranges(str(product), crs_of_file)
    table = TableLayout(
        days=_days(layout, product, header),
        x=x,
        y=y,
        x_range=x_range,
        y_range=y_range,
        crs=crs_of_file,
        to_mm=to_mm(about, layout.unit or "mm"),
        los=_line_of_sight(layout, header, about),
        point_id=find(layout.point_id),
        height=find(layout.height),
        coherence=find(layout.coherence),
        cells=layout.component is not None,
        missing=about.missing,
    )
    return open_csv_table(product, header, table, about.track or product.path.stem, crs)


def _line_of_sight(
    layout: Layout, header: list[str], about: params.Product
) -> tuple[float, float, float] | tuple[str, str, str] | Angles:
    if layout.component is not None:
        return layout.component
    if layout.has_vector:
        east, north, up = (find_column(header, [name]) or name for name in LINE_OF_SIGHT)
        return east, north, up
    if about.incidence_deg is None or about.heading_deg is None:
        raise ValueError("the line of sight was asked for before")
    return Angles(about.incidence_deg, about.heading_deg, about.look)


def _places(product: CsvFile, header: list[str]) -> tuple[str, str, str | None]:
    """Return the columns of x and y, and their CRS if it is known; in a layer, the geometry takes precedence."""
    if isinstance(product, PointLayer):
        return (*product.places, product.crs)
    for xs, ys, crs in ((LONGITUDE, LATITUDE, GLOBE), (EASTING, NORTHING, None)):
        x, y = find_column(header, xs), find_column(header, ys)
        if x is not None and y is not None:
            return x, y, crs
    raise InputError(
        f"{product}: no columns of places: lon and lat, or x and y are needed. The header has "
        f"{', '.join(header)[:300]}. Export the table with coordinates, or its layer of points as GeoPackage."
    )


def _days(layout: Layout, product: CsvFile, header: list[str]) -> dict[str, np.datetime64]:
    """Return column -> day, by the first pattern that finds epochs."""
    days: dict[str, np.datetime64] = {}
    for pattern in layout.days:
        days = find_days(str(product), header, pattern)
        if len(days) >= MIN_EPOCHS:
            break
    others = [name for name in header if name not in days]
    if len(days) < MIN_EPOCHS:
        raise InputError(
            f"{product}: {len(days)} columns of epochs found, named as {layout.days[0]}; at least {MIN_EPOCHS} are "
            f"needed. The last columns are {', '.join(map(repr, header[-3:]))}. Export the time series with the points."
            f"{cut_advice(product, others)}"
        )
    warn_of_unread(str(product), others, layout.days[0])
    return days
