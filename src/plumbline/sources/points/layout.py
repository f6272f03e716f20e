"""Which column of a table of points is what: all that the readers of such tables differ in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from plumbline import params
from plumbline.sources.crs import PLANE, Range

TO_MM = {"mm": 1.0, "cm": 10.0, "m": 1000.0}


def to_mm(about: params.Product, unit: str) -> float:
    """What a displacement is multiplied by, as `about` states its unit and sign; `unit`: that of the format."""
    factor = TO_MM[about.units.displacement if about.units else unit]
    return -factor if about.positive == "away" else factor


@dataclass(frozen=True)
class Angles:
    """A line of sight by two angles in degrees, each a column or one number for all points; see `los.from_heading`."""

    incidence: str | float
    heading: str | float


@dataclass(frozen=True)
class Layout:
    """Which column of a table is what, and in which unit."""

    days: Mapping[str, np.datetime64]
    """Column -> day of its displacements, in any order."""
    x: str
    """Easting or longitude."""
    y: str
    """Northing or latitude."""
    crs: str
    """Of `x` and `y`."""
    to_mm: float
    """A displacement times this is in mm, positive towards the satellite."""
    los: tuple[float, float, float] | tuple[str, str, str] | Angles
    """One vector for all points, its three columns, or two angles."""
    point_id: str | None = None
    """None: the points are numbered in the file's order, `P0000001`, …"""
    height: str | None = None
    """None: all 0."""
    coherence: str | None = None
    rmse: str | None = None
    rmse_to_mm: float = 1.0
    x_range: Range = PLANE
    y_range: Range = PLANE
    fixed_decimals: bool = False
    """Whether all displacements have as many decimals, so that a last cell that was cut shows."""
    cells: bool = False
    """Whether the places are middles of cells, on a grid."""
    skip: int = 0
    """Rows after the header that are no points."""

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Name and type of every column read."""
        sight = (self.los.incidence, self.los.heading) if isinstance(self.los, Angles) else self.los
        named = [self.x, self.y, self.height, self.coherence, self.rmse, *sight]
        numbers = [name for name in named if isinstance(name, str)]
        texts = [] if self.point_id is None else [self.point_id]
        return dict.fromkeys(texts, pa.string()) | dict.fromkeys([*numbers, *self.days], pa.float64())
