"""Take the largest principal tensile strain of a building over bays, as section 3 of the design defines it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.makers.ninth.settings import Array
from benchmarks.makers.ninth.town import Building

BAY_M = 4.0
QUADRANTS = ("NE", "NW", "SW", "SE")
LOWEST_PERMILLE = 0.5
"""Category 1, from which quadrants are defined."""
ALIKE = 0.9
"""Share of the building's largest strain from which another quadrant is accepted."""
PITCH_M, FEWEST = 0.25, 40
"""Of the lattice; and how many steps a side has at least."""


class Label(NamedTuple):
    """The truth of one building."""

    severity: float
    """Permille, as it is written."""
    quadrant: str
    """Empty below category 1, as `accepted`."""
    accepted: tuple[str, ...]


@dataclass(frozen=True)
class Lattice:
    """C cells of one building, in which its plane is fitted, and its N bays."""

    place: Array
    """(C + 2 N, 2) own positions: middles of cells, first ends of bays, second ends."""
    fit: Array
    """(3, C) from values in the cells to the constant and the slopes of their plane."""
    axis: NDArray[np.intp]
    """(N,) along which axis a bay lies."""
    length: Array
    """(N,) m"""
    quadrant: NDArray[np.intp]
    """(N,) of a bay's middle, in `QUADRANTS`."""

    @property
    def cells(self) -> int:
        """Return C."""
        return self.fit.shape[1]

    def plane(self, up: Array) -> Array:
        """Fit (3,) constant and slopes along x and y to values (C + 2 N,)."""
        return np.asarray(self.fit @ up[: self.cells])

    def strains(self, moved: Array) -> Array:
        """Return the principal tensile strain (N,) of each bay (Boscardin and Cording 1989).

        Args:
            moved: (C + 2 N, 3) m along x, along y and up, at `place`.
        """
        first, second = np.split(moved[self.cells :], 2)
        change = (second - first) / self.length[:, None]
        distortion = change[:, 2] - self.plane(moved[:, 2])[1:][self.axis]
        half = np.take_along_axis(change, self.axis[:, None], 1)[:, 0] / 2
        return np.asarray(half + np.hypot(half, distortion / 2))

    def label(self, moved: Array) -> Label:
        """Judge a movement, see `strains`."""
        strain = self.strains(moved)
        severity = round(1e3 * float(strain.max()), 5)
        if severity < LOWEST_PERMILLE:
            return Label(severity, "", ())
        largest = [strain[self.quadrant == code].max(initial=0.0) for code in range(4)]
        accepted = tuple(name for name, own in zip(QUADRANTS, largest, strict=True) if own >= ALIKE * strain.max())
        return Label(severity, QUADRANTS[int(np.argmax(largest))], accepted)


def lay_lattice(building: Building, pitch: float = PITCH_M) -> Lattice:
    """Lay cells over a footprint and bays along both axes, its edges included.

    Args:
        building: it.
        pitch: largest distance between neighbouring cells and bays, m.
    """
    side = 2 * building.half
    steps = np.maximum(FEWEST, np.ceil(side / pitch)).astype(int)
    middles = [(np.arange(count) + 0.5) / count * whole - whole / 2 for count, whole in zip(steps, side, strict=True)]
    cell = _pairs(*middles)
    cell = cell[building.holds(cell)]
    starts, ends, axes = [], [], []
    for axis in (0, 1):
        bay = BAY_M if side[axis] >= 2 * BAY_M else side[axis] / 2
        # Up to the edges of a missing corner, too.
        edge = building.corner * (building.half - building.notch)
        lines = [np.append(np.linspace(-half, half, steps[k] + 1), edge[k]) for k, half in enumerate(building.half)]
        first, last = -building.half[axis], building.half[axis] - bay
        lines[axis] = np.clip([*np.linspace(first, last, steps[axis] + 1), edge[axis], edge[axis] - bay], first, last)
        start = _pairs(*lines)
        end = start + bay * np.eye(2)[axis]
        # One corner may be missing, so a bay with both ends on the footprint lies on it.
        on = building.holds(start) & building.holds(end)
        starts.append(start[on])
        ends.append(end[on])
        axes.append(np.full(int(on.sum()), axis))
    start, end = np.concatenate(starts), np.concatenate(ends)
    east, north = ((start + end) / 2 >= -1e-9).T
    design = np.column_stack([np.ones(len(cell)), cell])
    return Lattice(
        np.concatenate([cell, start, end]),
        np.linalg.solve(design.T @ design, design.T),
        np.concatenate(axes),
        (end - start).sum(1),
        np.where(north, np.where(east, 0, 1), np.where(east, 3, 2)),
    )


def _pairs(x: Array, y: Array) -> Array:
    """Return all pairs (X Y, 2)."""
    return np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)
