"""Hold the scatterers of buildings, all tracks together and sorted by building, and pad them to rectangles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Scatterers:
    """N scatterers, rows of the same building together, buildings ascending."""

    building: NDArray[np.intp]
    """(N,) index of the building."""
    track: NDArray[np.intp]
    """(N,) index of the track."""
    xy: Float
    """(N, 2) position in the building frame, m."""
    height: Float
    """(N,) m above the lowest scatterer of the building."""
    los: Float
    """(N, 3) unit vector from ground to satellite along x, along y and up."""
    change: Float
    """(N,) displacement from the first to the last epoch, mm along LOS; see `trend`."""
    change_se: Float
    """(N,) its standard error, mm: of what the scatterer does not share with its building."""
    velocity: Float
    """(N,) mean velocity along LOS, mm/yr."""
    velocity_se: Float
    """(N,) its standard error, mm/yr: of what the scatterer does not share with its building."""
    common_se: Float
    """(N,) standard error of what the velocities of the building's scatterers of that track share, mm/yr."""
    course: Float
    """(N, K) course in time, mm; NaN where it is not known; see `temporal_basis.Courses`."""
    course_root: Float
    """(N, K, K) how well it is known, 1/mm."""

    def __len__(self) -> int:
        return len(self.building)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Self:
        """Select the rows `index`, in that order."""
        return replace(self, **{field.name: getattr(self, field.name)[index] for field in fields(self)})


CELLS = 1 << 19
"""Largest number of cells of one rectangle, when a cell is a pair of scatterers: bounds the memory."""


class Rectangle(NamedTuple):
    """b buildings of similar size, padded to P scatterers."""

    building: NDArray[np.intp]
    """(b,) position of the building in the ragged order."""
    row: NDArray[np.intp]
    """(b, P) row of the scatterer; padding repeats a row of the building itself."""
    mask: NDArray[np.bool_]
    """(b, P) False where padding."""


def rectangles(offsets: NDArray[np.int64]) -> Iterator[Rectangle]:
    """Cover all buildings that have scatterers; `offsets` (B + 1,) are the bounds of their rows."""
    size = np.diff(offsets)
    order = np.argsort(size, kind="stable")
    order = order[size[order] > 0]
    start = 0
    while start < len(order):
        width = int(size[order[start]])
        # Buildings up to a quarter larger share a rectangle, as far as its squared width allows.
        stop = int(np.searchsorted(size[order], width + max(1, width // 4), side="right"))
        width = int(size[order[stop - 1]])
        stop = min(stop, start + max(1, CELLS // width**2))
        building = order[start:stop]
        column = np.arange(width)
        mask = column[None, :] < size[building, None]
        row = offsets[building, None] + np.minimum(column[None, :], size[building, None] - 1)
        yield Rectangle(building, row, mask)
        start = stop
