"""Labels by section 3 of the design: largest principal tensile strain over bays, and the quadrant of that bay."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from benchmarks.heldout.frame import QUADRANTS, Frame

Array = NDArray[np.float64]
Field = Callable[[Array], Array]
"""(N, 2) m in the building's axes -> (N, 3) mm up, along x and along y."""
BAY_M, STEP_M = 4.0, 0.75
EDGE_M = 0.02
"""A bay on the outline is inside, whatever rounding did to its ends."""
LOWEST_PERMILLE = 0.5
"""Category 1, from which the quadrant is defined."""


class Label(NamedTuple):
    """Of one building."""

    severity: float
    """Permille."""
    quadrant: str


class Bays(NamedTuple):
    """All bays of a building, and the lattice that its plane is fitted on; positions in its axes, m."""

    cell: Array
    """(C, 2) middles of equal cells of the footprint: so equal weights are weights by area."""
    start: Array
    end: Array
    """(N, 2)"""
    axis: NDArray[np.intp]
    """(N,)"""


def lay_bays(polygon: shapely.Polygon, frame: Frame) -> Bays:
    """Bays every `STEP_M` along and across both axes, and at edges and corners, that lie wholly on the footprint."""
    own = shapely.transform(polygon, frame.to_own)
    fine = max(STEP_M / 2, float(frame.side.max()) / 80)
    x, y = (_middles(side, fine) for side in frame.side)
    cell = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    plain = own.area > 0.999 * frame.side.prod()
    around = shapely.buffer(own, EDGE_M, join_style="mitre")
    shapely.prepare(around)
    if not plain:
        cell = cell[shapely.contains_xy(around, cell)]
    corner = shapely.get_coordinates(own)
    starts, ends, axes = [], [], []
    for axis in (0, 1):
        side, other = frame.side[axis], frame.side[1 - axis]
        bay = BAY_M if side >= 2 * BAY_M else side / 2
        first, line = _lines(-side / 2, side / 2 - bay), _lines(-other / 2, other / 2)
        if not plain:
            # Strain is largest along edges and up to corners, which need not lie on the lines of the rectangle.
            first = np.unique(np.r_[first, corner[:, axis], corner[:, axis] - bay])
            line = np.unique(np.r_[line, corner[:, 1 - axis]])
        place = np.stack(np.meshgrid(first, line), -1).reshape(-1, 2)
        start = place[:, ::-1] if axis else place
        step = bay * np.eye(2)[axis]
        if not plain:
            inside = [shapely.contains_xy(around, start + share * step) for share in np.linspace(0, 1, 6)]
            start = start[np.all(inside, axis=0)]
        starts.append(start)
        ends.append(start + step)
        axes.append(np.full(len(start), axis))
    return Bays(cell, np.concatenate(starts), np.concatenate(ends), np.concatenate(axes))


def plane_of(cell: Array, value: Array) -> Array:
    """(3,) constant and slopes along x and y of the least-squares plane through the cells."""
    design = np.column_stack([np.ones(len(cell)), cell])
    return np.asarray(np.linalg.lstsq(design, value, rcond=None)[0], float)


def label_of(field: Field, bays: Bays) -> Label:
    """Boscardin and Cording (1989) over all bays of a noise-free field."""
    tilt = plane_of(bays.cell, field(bays.cell)[:, 0])[1:]
    length = (bays.end - bays.start)[np.arange(len(bays.axis)), bays.axis]
    change = (field(bays.end) - field(bays.start)) / length[:, None]
    beta = change[:, 0] - tilt[bays.axis]
    stretch = change[np.arange(len(bays.axis)), 1 + bays.axis]
    strain = stretch / 2 + np.sqrt((stretch / 2) ** 2 + (beta / 2) ** 2)
    worst = int(np.argmax(strain))
    x, y = (bays.start[worst] + bays.end[worst]) / 2
    quadrant = QUADRANTS[(0 if x >= 0 else 1) if y >= 0 else (3 if x >= 0 else 2)]
    return Label(float(strain[worst]), quadrant)


def _middles(side: float, largest: float) -> Array:
    count = int(np.ceil(side / largest))
    return (np.arange(count) + 0.5) / count * side - side / 2


def _lines(low: float, high: float) -> Array:
    return np.linspace(low, high, max(3, int(np.ceil((high - low) / STEP_M)) + 1))
