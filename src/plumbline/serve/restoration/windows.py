"""Cut an extent into overlapping windows, and blend them on disk, so that memory does not grow with the extent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.prepare.restoration.grid import Grid

Float = NDArray[np.floating[Any]]
WINDOW, OVERLAP = 64, 16
"""Cells of a side, as in training, and those that two neighbours share."""


@dataclass(frozen=True)
class Window:
    """A part of the grid."""

    row: int
    column: int

    def of(self, grid: Grid) -> Grid:
        """Return the grid of the window; it may reach beyond the whole grid."""
        return grid.window(self.row, self.column, WINDOW, WINDOW)

    @property
    def name(self) -> str:
        """Return a name for files."""
        return f"{self.row}_{self.column}"


def windows(grid: Grid) -> Iterator[Window]:
    """Yield windows that cover the grid, row by row."""
    for row in _starts(grid.rows):
        for column in _starts(grid.columns):
            yield Window(row, column)


def _starts(cells: int) -> range:
    step = WINDOW - OVERLAP
    return range(0, max(1, cells - OVERLAP), step)


def ramp() -> NDArray[np.float32]:
    """Return (WINDOW, WINDOW) weights that fall over the overlap towards the edges; those of neighbours add up to 1."""
    rise = (np.arange(OVERLAP) + 0.5) / OVERLAP
    line = np.concatenate([rise, np.ones(WINDOW - 2 * OVERLAP), rise[::-1]])
    return np.outer(line, line).astype(np.float32)


class Blend:
    """Weighted means over windows, on disk."""

    def __init__(self, folder: Path, bands: int, grid: Grid) -> None:
        """Create the arrays in `folder`, which exists and is the caller's to remove."""
        self._shape = (bands, grid.rows, grid.columns)
        self._sum = np.lib.format.open_memmap(folder / "sum.npy", "w+", np.float32, self._shape)
        self._weight = np.lib.format.open_memmap(folder / "weight.npy", "w+", np.float32, self._shape)
        self._ramp = ramp()

    def add(self, window: Window, values: NDArray[np.float32]) -> None:
        """Add (bands, WINDOW, WINDOW) of a window; NaN is ignored."""
        rows = min(WINDOW, self._shape[1] - window.row)
        columns = min(WINDOW, self._shape[2] - window.column)
        own = values[:, :rows, :columns]
        weight = np.where(np.isfinite(own), self._ramp[:rows, :columns], 0)
        place = (slice(None), slice(window.row, window.row + rows), slice(window.column, window.column + columns))
        self._sum[place] += weight * np.nan_to_num(own)
        self._weight[place] += weight

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        """Return (bands, rows, columns) of some rows; NaN where all windows are NaN."""
        weight = np.asarray(self._weight[:, first:last])
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(weight > 0, np.asarray(self._sum[:, first:last]) / weight, np.nan).astype(np.float32)
