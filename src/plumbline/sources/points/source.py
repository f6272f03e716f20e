"""Define what a reader returns: checked blocks of points, and what had to be stated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plumbline import params
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.sources.crs import PLANE, Range
from plumbline.sources.files.opened import OpenedFile
from plumbline.sources.files.streams import CsvFile
from plumbline.sources.points.epochs import MIN_EPOCHS as MIN_EPOCHS
from plumbline.sources.points.track import Track


@dataclass(frozen=True)
class ProductFile:
    """A file of points that has been recognised.

    It goes to other processes. A csv that is replaced after it was recognised is read in
    the dialect of the former.
    """

    opened: OpenedFile
    about: params.Product
    """Settings of `ingest.products` for it."""
    kind: Literal["hdf5", "parquet", "layer", "csv"]
    format: str
    """Key of `recognise.FORMATS`."""
    csv: CsvFile | None
    """Table to read; None of HDF5."""
    header: tuple[str, ...]
    """Names of its columns; none of HDF5."""

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.opened.path


@dataclass(frozen=True)
class PointSource:
    """One opened product: the properties of all its points, and a function that reads them."""

    name: str
    """Name of the track."""
    crs: str
    """Projected CRS of easting and northing, in m."""
    epochs: NDArray[np.datetime64]
    """(T,) days, ascending."""
    blocks: Callable[[], Iterator[Track]]
    """The points in the file's order, checked, at most some 50,000 a block; may be called again."""
    notes: tuple[str, ...] = ()
    """Decisions of the reader that a careful person should know; for the audit."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Quantity -> column, array or number that it is read from; for people."""
    meaning: str = ""
    """Unit and sign of displacements in the file, for people."""


HEIGHT_RANGE = (-1_000.0, 10_000.0)
MAX_DISPLACEMENT_MM = 100_000.0
"""C-band interferometry cannot follow metres of motion, let alone 100 m: a larger value is
a damaged cell."""
MAX_RMSE_MM = 500.0
"""Largest root mean square error of a fit to a series: C-band cannot follow half a metre
between two epochs. A larger value is of another unit (in µm it would be thousands) or of
another column."""
UNIT_TOLERANCE = 0.005
"""Largest deviation of a line of sight's length from 1: three decimals of its components give up to
0.001."""
OUT_OF_ORDER = "the epochs do not ascend in the file; they are sorted"


def add_notes(source: PointSource, about: object, notes: Iterable[str]) -> PointSource:
    """Add notes to a product, and write each to the log.

    Args:
        source: the product.
        about: names the file in the log.
        notes: sentences without a full stop.
    """
    sentences = tuple(notes)
    for note in sentences:
        log.info("%s: %s.", about, note)
    return replace(source, notes=(*source.notes, *sentences))


def describe_outside(value: float, bounds: Range) -> tuple[str, str]:
    """Return value and advice for a cell out of bounds, in a column with optional values."""
    wanted = f"a number from {bounds[0]:g} to {bounds[1]:g} is needed"
    return (
        f"{value:.10g}",
        f"{wanted}; if it means no value, state missing: [{value:.10g}] in ingest.products",
    )


TO_MM = {"mm": 1.0, "cm": 10.0, "m": 1000.0}


def to_mm(about: params.Product, unit: str) -> float:
    """Return the factor to mm towards the satellite, by unit and sign in `about`; `unit`:
    that of the format."""
    factor = TO_MM[about.units.displacement if about.units else unit]
    return -factor if about.positive == "away" else factor


def describe_displacements(factor: float) -> str:
    """Describe unit and sign of displacements that become mm towards the satellite when
    multiplied by `factor`."""
    unit = next((name for name, to in TO_MM.items() if to == abs(factor)), f"{abs(factor):g} mm")
    return f"{unit}, positive {'towards' if factor > 0 else 'away from'} the satellite"


@dataclass(frozen=True)
class Angles:
    """A line of sight by two angles, each a column or one number for all points; see
    `los_from_heading`."""

    incidence: str | float
    heading: str | float
    look: Literal["right", "left"] = "right"
    """Side of the flight on which the antenna looks."""
    to_degrees: float = 1.0
    """Factor from the unit of columns of angles to degrees."""


@dataclass(frozen=True)
class TableLayout:
    """Role and unit of each column of a table."""

    days: Mapping[str, np.datetime64]
    """Column -> day of its displacements, in any order."""
    x: str
    """Easting or longitude."""
    y: str
    """Northing or latitude."""
    crs: str
    """CRS of `x` and `y`."""
    to_mm: float
    """A displacement times this is in mm, positive towards the satellite."""
    los: tuple[float, float, float] | tuple[str, str, str] | Angles
    """One vector for all points, its three columns, or two angles."""
    is_true_to_ground: bool = False
    """True if a metre of `crs` is one on the ground, along east and north, wherever such a product
    can be."""
    point_id: str | None = None
    """None: the points are numbered in the file's order, `P0000001`, …"""
    height: str | None = None
    """None: all 0."""
    coherence: str | None = None
    rmse: str | None = None
    rmse_to_mm: float = 1.0
    x_range: Range = PLANE
    y_range: Range = PLANE
    cells: bool = False
    """True if the points are middles of cells, on a grid."""
    skip: int = 0
    """Number of rows after the header that are no points."""
    missing: Sequence[float | str] | None = None
    """Codes of missing values; None: they are searched."""

    @property
    def origins(self) -> dict[str, str]:
        """Quantity -> the column or number that it is read from, for messages."""
        days = sorted(self.days, key=lambda column: self.days[column])
        if isinstance(self.los, Angles):
            sight = (
                f"incidence {self.los.incidence}, heading {self.los.heading}, looking "
                f"{self.los.look}"
            )
        else:
            sight = ", ".join(map(str, self.los))
        named = {
            "point_id": self.point_id or "numbered by row",
            "x": self.x,
            "y": self.y,
            "height": self.height or "none: all 0",
            "coherence": self.coherence,
            "rmse": self.rmse,
            "line of sight": sight,
            "displacements": f"{len(days)} columns, {days[0]} to {days[-1]}",
        }
        return {role: name for role, name in named.items() if name is not None}

    @property
    def sight(self) -> list[str]:
        """Names of the columns of the line of sight."""
        parts = (self.los.incidence, self.los.heading) if isinstance(self.los, Angles) else self.los
        return [name for name in parts if isinstance(name, str)]

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Name and type of every column read."""
        named = [self.x, self.y, self.height, self.coherence, self.rmse, *self.sight]
        numbers = [name for name in named if isinstance(name, str)]
        texts = [] if self.point_id is None else [self.point_id]
        kinds = dict.fromkeys(texts, pa.string()) | dict.fromkeys(numbers, pa.float64())
        return kinds | dict.fromkeys(self.days, pa.float32())


ANGLES = ("incidence_deg", "heading_deg")
QUESTIONS = {
    "incidence_deg": (
        "from where the satellite looked",
        "30.0",
        "incidence_deg is the angle from the vertical and heading_deg the direction of flight, "
        "clockwise from north, in degrees",
    ),
    "heading_deg": ("", "350.0", ""),
    "crs": ("which CRS its coordinates are in", "EPSG:NUMBER", "crs is that of its coordinates"),
    "units": ("the unit of its displacements", "{displacement: UNIT}", "UNIT is mm, cm or m"),
    "positive": (
        "the sign of its displacements",
        "SIGN",
        "SIGN is towards, if a positive displacement is motion towards the satellite, else away",
    ),
}
"""Key of `ingest.products` -> missing property, example of a value, and its meaning."""


def stated_angles(product: CsvFile, about: params.Product) -> Angles:
    """Return the viewing angles that the file lacks, from its description, in degrees.

    Raises:
        InputError: they are not stated; the message has the lines to write.
    """
    if about.incidence_deg is None or about.heading_deg is None:
        raise unstated_error(product, ANGLES)
    return Angles(about.incidence_deg, about.heading_deg, about.look)


def unstated_error(product: CsvFile, keys: Iterable[str]) -> InputError:
    """Return the error that asks for several keys of `ingest.products` at once.

    Args:
        product: the file.
        keys: those of `QUESTIONS` that its format needs and that are not stated.
    """
    questions = [QUESTIONS[key] for key in keys]
    lacks = [lack for lack, _, _ in questions if lack]
    listed = ", ".join(lacks[:-1]) + (" and " if lacks[:-1] else "") + lacks[-1]
    stated = ", ".join(
        f"{key}: {example}" for key, (_, example, _) in zip(keys, questions, strict=True)
    )
    meant = "; ".join(meaning for _, _, meaning in questions if meaning)
    return InputError(
        f"{product}: the file does not state {listed}. Write these lines into "
        f"{params.PARAMS_FILE}. Put in your values: {meant}.\n"
        "ingest:\n"
        "  products:\n"
        f"    {product.path.name!r}: {{{stated}}}  # yours",
        key="products.unstated",
    )
