"""Ragged rows of buildings as padded rectangles, so that a thousand small systems are solved at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
