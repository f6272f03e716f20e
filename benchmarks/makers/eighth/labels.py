"""Labels by section 3 of the design: largest principal tensile strain over bays, and the quadrant of that bay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from benchmarks.makers.eighth.frame import Frame

Array = NDArray[np.float64]
BAY_M = 4.0
QUADRANTS = ("SW", "SE", "NW", "NE")
ON_AXIS_M = -1e-9
"""What rounding takes for west or south of the centre is not."""
LOWEST_PERMILLE = 0.5
"""Category 1, from which the quadrant is defined."""


class Label(NamedTuple):
    """Of one building."""

    severity: float
    """Permille."""
    quadrant: str
    rival: float
    """Largest strain in the other quadrants, as a share of the largest of all."""


@dataclass(frozen=True)
class Bays:
    """All N bays of a building, and the C cells that its plane is fitted on."""

    place: Array
    """(C + 2 N, 2) middles of the cells, first ends of the bays, second ends, in the building's axes, m."""
    fit: Array
    """(3, C) from values of the cells to the constant and the slopes of their least-squares plane."""
    axis: NDArray[np.intp]
    """(N,)"""
    length: Array
    """(N,) m"""
    quadrant: NDArray[np.intp]
    """(N,) where the middle of each is, in `QUADRANTS`."""

    def plane(self, value: Array) -> Array:
        """(3,) constant and slopes along x and y of values (C + 2 N,) at `place`."""
        return np.asarray(self.fit @ value[: self.fit.shape[1]])

    def label(self, up: Array, sideways: Array) -> Label:
        """Boscardin and Cording (1989) over all bays.

        Args:
            up: (C + 2 N,) m at `place`.
            sideways: (C + 2 N, 2) m along x and y.
        """
        slope = self._change(up) - self.plane(up)[1:][self.axis]
        stretch = np.where(self.axis == 0, self._change(sideways[:, 0]), self._change(sideways[:, 1]))
        strain = stretch / 2 + np.sqrt((stretch / 2) ** 2 + (slope / 2) ** 2)
        worst = int(np.argmax(strain))
        elsewhere = strain[self.quadrant != self.quadrant[worst]].max()
        return Label(1e3 * strain[worst], QUADRANTS[self.quadrant[worst]], elsewhere / max(strain[worst], 1e-12))

    def _change(self, value: Array) -> Array:
        """(N,) of a value, a metre of each bay."""
        first, second = np.split(value[self.fit.shape[1] :], 2)
        return np.asarray((second - first) / self.length)


def lay_bays(own: shapely.Polygon, frame: Frame) -> Bays:
    """Bays every metre along and across both axes that lie wholly on the footprint, given in its own axes."""
    step = np.clip(np.sqrt(own.area) / 20, 0.4, 1.0)
    middles = [(np.arange(np.ceil(side / step)) + 0.5) * side / np.ceil(side / step) - side / 2 for side in frame.side]
    cell = _lattice(*middles)
    cell = cell[shapely.contains_xy(own, cell)]
    around = shapely.buffer(own, 1e-4)
    starts, ends, axes, lengths = [], [], [], []
    for axis in (0, 1):
        side, other = frame.side[axis], frame.side[1 - axis]
        length = BAY_M if side >= 2 * BAY_M else side / 2
        place = _lattice(_lines(-side / 2, side / 2 - length), _lines(-other / 2, other / 2))
        start = place[:, ::-1] if axis else place
        bay = length * np.eye(2)[axis]
        on = [shapely.distance(around, shapely.points(start + share * bay)) < 1e-3 for share in (0, 0.5, 1)]
        start = start[np.all(on, axis=0)]
        starts.append(start)
        ends.append(start + bay)
        axes.append(np.full(len(start), axis))
        lengths.append(np.full(len(start), length))
    start, end = np.concatenate(starts), np.concatenate(ends)
    east, north = ((start + end) / 2 >= ON_AXIS_M).T
    return Bays(
        np.concatenate([cell, start, end]),
        np.linalg.pinv(np.column_stack([np.ones(len(cell)), cell])),
        np.concatenate(axes),
        np.concatenate(lengths),
        east + 2 * north,
    )


def _lattice(x: Array, y: Array) -> Array:
    """(X Y, 2) all pairs; the first of each changes fastest."""
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def _lines(low: float, high: float) -> Array:
    """At most a metre apart."""
    return np.linspace(low, high, max(3, int(np.ceil(high - low)) + 1))
