"""Read tables of published layouts: DePSI, StaMPS, SARPROZ, SqueeSAR and others."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa

from plumbline import params
from plumbline.core.errors import InputError
from plumbline.sources.crs import GLOBE, ranges
from plumbline.sources.files.csv_table import fail_at, stream_columns
from plumbline.sources.files.streams import CsvFile
from plumbline.sources.points.epochs import (
    FIRST_YEAR,
    LAST_YEAR,
    MIN_EPOCHS,
    find_days,
    find_epochs,
)
from plumbline.sources.points.formats.egms import CUT_LETTERS
from plumbline.sources.points.formats.vector_layer import PointLayer, check_stated_crs
from plumbline.sources.points.source import (
    ANGLES,
    Angles,
    TableLayout,
    stated_angles,
    to_mm,
    unstated_error,
)

LONGITUDE, LATITUDE = (
    ("geometry_longitude", "lon", "longitude", "pnt_lon"),
    ("geometry_latitude", "lat", "latitude", "pnt_lat"),
)
EASTING, NORTHING = ("geometry_easting", "easting", "x"), ("geometry_northing", "northing", "y")
LINE_OF_SIGHT = ("los_east", "los_north", "los_up")


@dataclass(frozen=True)
class Layout:
    """A layout of a table with a row a point and a column an epoch; names are in small letters."""

    name: str
    """Value of `format` in `ingest.products`."""
    called: str
    marks: tuple[str, ...]
    """Columns that identify the layout; all of them are needed."""
    days: tuple[str, ...] = ("D%Y%m%d",)
    """Patterns of `strptime` for columns of epochs; the first that finds two epochs counts."""
    unit: str | None = "mm"
    """Unit of displacements: mm, cm or m. None: the layout does not define it, so the user must."""
    positive: Literal["towards"] | None = "towards"
    """Sign of displacements, as in `ingest.products`. None: the user must state it."""
    point_id: tuple[str, ...] = ()
    height: tuple[str, ...] = ("height", "geometry_height")
    """Names of the height; an attribute comes before the geometry's z, which many programs write as
    0."""
    coherence: tuple[str, ...] = ()
    component: tuple[float, float, float] | None = None
    """East, north, up of the motion, if two passes were decomposed on cells. None: the line of
    sight."""
    has_vector: bool = False
    """True if it has the line of sight: `los_east`, `los_north`, `los_up`, from ground to
    satellite."""
    one_of: tuple[str, ...] = ()
    """Further columns, one of which is there."""
    lacks: tuple[str, ...] = ()
    """Columns that would make it another layout."""
    other_series: tuple[str, ...] = ()
    """Beginnings of the names of columns that look like epochs and are no displacements."""
    only_days: bool = False
    """True if all of its columns are epochs, except those of positions."""

    @property
    def has_view(self) -> bool:
        """True if the layout itself gives the line of sight."""
        return self.has_vector or self.component is not None


# fmt: off
LAYOUTS = (
    # TRE ALTAMIRA, description of SqueeSAR's shapefiles (treuropa.com, "Map visualization");
    # MintPy, save_qgis.py.
    Layout("squeesar", "SqueeSAR of TRE ALTAMIRA, and MintPy's save_qgis", ("code", "vel", "v_stdev", "coherence"),
        point_id=("code",), coherence=("coherence",)),
    # TRE ALTAMIRA, description of vertical and east-west components (quoted by DIVEG of
    # Denmark's mapping agency).
    Layout("squeesar-up", "SqueeSAR, vertical component", ("code", "vel_v", "v_stdev_v"),
        point_id=("code",), component=(0.0, 0.0, 1.0), lacks=("vel_e",)),
    Layout("squeesar-east", "SqueeSAR, east-west component", ("code", "vel_e", "v_stdev_e"),
        point_id=("code",), component=(1.0, 0.0, 0.0), lacks=("vel_v",)),
    # StaMPS, ps_export_gis.m: ph_mm of ps_plot, days as yyyymmdd behind a D.
    Layout("stamps-gis", "StaMPS, ps_export_gis", ("code", "lon", "lat", "height", "coherence", "vlos"),
        point_id=("code",), coherence=("coherence",)),
    # DePSI's csv of points; its other series are amplitudes, and heights to phases.
    Layout("depsi", "DePSI", ("pnt_id", "pnt_lat", "pnt_lon"), days=("d_%Y%m%d",), unit="m", point_id=("pnt_id",),
        height=("pnt_height", "geometry_height"), coherence=("pnt_enscoh",), other_series=("a_", "h2ph_")),
    # SARvey, sarvey_export.py. `dem` is the height of the terrain model; `dem_error`, of
    # unstated sign, is not added.
    Layout("sarvey", "SARvey, sarvey_export", ("point_id", "velocity", "coherence", "omega", "st_consistency"),
        positive=None, point_id=("point_id",), height=("dem", "geometry_height"), coherence=("coherence",)),
    # SARPROZ manual, 1.4.10.3 Sparse Data Export. It does not define how days are written: these
    # are the ways of MATLAB's datestr, and the year of two digits in front that a public script in
    # R expects of such files.
    Layout("sarproz", "SARPROZ, sparse data export", ("id", "lat", "lon", "svet", "lvet", "coher"),
        days=("%Y%m%d", "%d-%b-%Y", "%Y-%m-%d", "%Y/%m/%d", "%y/%m/%d", "%y-%m-%d", "%y.%m.%d"),
        positive=None, point_id=("id",), coherence=("coher",)),
    # SARscape, attributes of the PS shapefile (ENVI's support pages): neither unit nor sign,
    # and of LOS_Az and LOS_In not from where they count.
    Layout("sarscape", "SARscape, PS and SBAS shapes", ("velocity", "coherence", "los_az", "los_in"),
        days=("D_%Y%m%d",), unit=None, positive=None, height=("z", "geometry_height"), coherence=("coherence",)),
    # PyGMTSAR, Stack_export.py, export_stack_geojson: any grid of the user's, so neither unit
    # nor sign are known.
    Layout("pygmtsar", "PyGMTSAR, export_stack_geojson", ("geometry_longitude", "geometry_latitude"),
        days=("%Y-%m-%d",), unit=None, positive=None, height=("geometry_height",), only_days=True),
    # NGU, "Beskrivelse av parametre" and "How does the InSAR map service work". EGMS has the
    # same names, and metres.
    Layout("insar-norway", "InSAR Norway (csv)", ("mean_velocity", *LINE_OF_SIGHT), days=("%Y%m%d",),
        point_id=("pid", "point id", "point_id", "code", "id"), coherence=("temporal_coherence",), has_vector=True,
        one_of=LATITUDE, lacks=("easting", "northing")),
)
# fmt: on


def find_column(header: Iterable[str], names: Iterable[str]) -> str | None:
    """Return the first column with one of the names, as the header writes it; None without any.

    Capital letters do not matter, and a Shapefile may have cut the name.

    Args:
        header: names of all columns.
        names: in small letters; the first that is found counts.
    """
    written: Mapping[str, str] = {name.lower(): name for name in reversed(list(header))}
    for name in names:
        for spelling in (name, name[:CUT_LETTERS]):
            if spelling in written:
                return written[spelling]
    return None


def is_layout(layout: Layout, header: list[str]) -> bool:
    """Return whether the names of columns are those of this layout."""
    has = partial(find_column, header)
    fits = all(has([mark]) for mark in layout.marks) and not has(layout.lacks)
    fits = fits and (not layout.one_of or has(layout.one_of) is not None)
    if not fits or not layout.only_days:
        return fits
    day_names = [name for name in header if not name.startswith("geometry_")]
    try:
        return MIN_EPOCHS <= len(day_names) == len(find_days("", day_names, layout.days[0]))
    except InputError:  # a name is no day
        return False


def published_layout(
    layout: Layout, product: CsvFile, header: list[str], about: params.Product
) -> tuple[TableLayout, Sequence[str]]:
    """Return the roles of the columns of a published layout; and no notes.

    Args:
        layout: which one.
        product: the csv, or the layer of points.
        header: names of its columns.
        about: what `ingest.products` states of it.

    Raises:
        InputError: `about` lacks something that the layout does not define (one message
            names all of it), a column of positions is missing, or there are too few epochs;
            what concerns rows, where reading gets to them.
    """
    find = partial(find_column, header)
    x, y, table_crs = _find_coordinates(product, header)
    stated = {
        "crs": about.crs or table_crs,
        "incidence_deg": 0.0 if layout.has_view else about.incidence_deg,
        "heading_deg": 0.0 if layout.has_view else about.heading_deg,
        "units": layout.unit or about.units,
        "positive": layout.positive or about.positive,
    }
    missing = [key for key in (*ANGLES, "crs", "units", "positive") if stated[key] is None]
    if missing:
        raise unstated_error(product, missing)
    crs_of_file = about.crs or table_crs or GLOBE
    if isinstance(product, PointLayer) and x in product.places:
        check_stated_crs(product, crs_of_file)
    x_range, y_range = ranges(str(product), crs_of_file)  # of no use in degrees
    table = TableLayout(
        days=find_epochs(str(product), header, layout.days, layout.other_series),
        x=x,
        y=y,
        x_range=x_range,
        y_range=y_range,
        crs=crs_of_file,
        to_mm=to_mm(about, layout.unit or "mm"),
        los=_layout_sight(layout, product, header, about),
        point_id=find(layout.point_id),
        height=find(layout.height),
        coherence=find(layout.coherence),
        cells=layout.component is not None,
        missing=about.missing,
    )
    return table, ()


def _layout_sight(
    layout: Layout, product: CsvFile, header: list[str], about: params.Product
) -> tuple[float, float, float] | tuple[str, str, str] | Angles:
    if layout.component is not None:
        return layout.component
    if layout.has_vector:
        east, north, up = (find_column(header, [name]) or name for name in LINE_OF_SIGHT)
        return east, north, up
    return stated_angles(product, about)


def _find_coordinates(product: CsvFile, header: list[str]) -> tuple[str, str, str | None]:
    """Return the columns of x and y, and their CRS if known; a layer's geometry takes
    precedence."""
    if isinstance(product, PointLayer):
        return (*product.places, product.crs)
    for xs, ys, crs in ((LONGITUDE, LATITUDE, GLOBE), (EASTING, NORTHING, None)):
        x, y = find_column(header, xs), find_column(header, ys)
        if x is not None and y is not None:
            return x, y, crs
    raise InputError(
        f"{product}: no columns of places: lon and lat, or x and y are needed. The header has "
        f"{', '.join(header)[:300]}. Export the table with coordinates, or its layer of points as "
        "GeoPackage.",
        key="points.no_place",
    )


NUMBERED = re.compile(r"(.*?)_ *([0-9]{1,5})")
N_FIXED = 3
"""Number of columns before those of the epochs."""
MATLAB_TO_ORDINAL = 366
"""MATLAB counts days from year 0, Python from year 1."""
EXPORT_OFFSET_DAYS = 1
"""Number of days that the export script subtracts from each day number."""


def is_stamps(header: list[str]) -> bool:
    """Return whether the columns are those of one matrix, numbered from 1 without a gap, as
    MATLAB names them."""
    return _order_columns(header) is not None


def stamps_layout(
    product: CsvFile, header: list[str], about: params.Product
) -> tuple[TableLayout, Sequence[str]]:
    """Return the roles of a StaMPS export's columns; and no notes.

    `about` must state the line of sight.

    Raises:
        InputError: the columns are not numbered, the metadata row is not one, or `about`
            lacks an angle; what concerns rows, where reading gets to them.
    """
    columns = _order_columns(header)
    if columns is None:
        raise InputError(
            f"{product}, line 1: not a StaMPS export, whose columns are numbered (export_res_ 1, "
            f"export_res_ 2, …); the header has {', '.join(header)[:300]}.",
            key="stamps.not_numbered",
        )
    layout = TableLayout(
        days=_read_days(product, header, columns),
        x=columns[0],
        y=columns[1],
        crs=about.crs or GLOBE,
        to_mm=to_mm(about, "mm"),
        los=stated_angles(product, about),
        missing=about.missing,
        skip=1,
    )
    return layout, ()


def _order_columns(header: list[str]) -> list[str] | None:
    """Return the columns in the order of their numbers; None if they are not one numbered
    matrix."""
    parts = [NUMBERED.fullmatch(name) for name in header]
    if len(header) <= N_FIXED or not all(parts):
        return None
    number = {int(part[2]): part[0] for part in parts if part}
    if len({part[1] for part in parts if part}) > 1 or sorted(number) != list(
        range(1, len(header) + 1)
    ):
        return None
    return [number[index] for index in sorted(number)]


def _read_days(product: CsvFile, header: list[str], columns: list[str]) -> dict[str, np.datetime64]:
    rows = stream_columns(product, header, dict.fromkeys(columns, pa.float64()))
    _, table = next(rows, (0, None))
    if table is None:
        raise InputError(
            f"{product}: it has a header, but no points. Download it again, or leave it out.",
            key="points.none",
        )
    cells = [table[name][0].as_py() for name in columns]
    meta = [None if cell is None or math.isnan(cell) else cell for cell in cells]
    if meta[N_FIXED - 1] is not None:
        fail_at(
            product,
            0,
            columns[N_FIXED - 1],
            f"{meta[N_FIXED - 1]:.10g}",
            "the first row must be StaMPS's metadata: NaN",
            key="stamps.no_metadata",
        )
    days: dict[str, np.datetime64] = {}
    for name, number in zip(columns[N_FIXED:], meta[N_FIXED:], strict=True):
        ordinal = (number or 0) + EXPORT_OFFSET_DAYS - MATLAB_TO_ORDINAL
        first, last = date(FIRST_YEAR, 1, 1).toordinal(), date(LAST_YEAR, 12, 31).toordinal()
        if not first <= ordinal <= last or ordinal != int(ordinal):
            cell = "no value" if number is None else f"{number:.10g}"
            fail_at(
                product,
                0,
                name,
                cell,
                f"a day number of MATLAB of the years {FIRST_YEAR} to {LAST_YEAR} is needed",
                key="stamps.not_a_day",
            )
        days[name] = np.datetime64(date.fromordinal(int(ordinal)), "D")
    return days
