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


def windows(grid: Grid, part: Grid | None = None) -> Iterator[Window]:
    """Yield windows that cover the grid, row by row; only those that reach into `part` of it, if that is given."""
    part = part or grid
    first_row, first_column = offset(part, grid)
    for row in _starts(grid.rows, first_row, part.rows):
        for column in _starts(grid.columns, first_column, part.columns):
            yield Window(row, column)


def _starts(cells: int, first: int, count: int) -> list[int]:
    starts = range(0, max(1, cells - OVERLAP), WINDOW - OVERLAP)
    return [start for start in starts if first - WINDOW < start < first + count]


def offset(part: Grid, grid: Grid) -> tuple[int, int]:
    """Return row and column of the grid at which a part of it begins."""
    return round((grid.top - part.top) / grid.cell_m), round((part.left - grid.left) / grid.cell_m)


def ramp() -> NDArray[np.float32]:
    """Return (WINDOW, WINDOW) weights that fall over the overlap towards the edges; those of neighbours add up to 1."""
    rise = (np.arange(OVERLAP) + 0.5) / OVERLAP
    line = np.concatenate([rise, np.ones(WINDOW - 2 * OVERLAP), rise[::-1]])
    return np.outer(line, line).astype(np.float32)


class Blend:
    """Weighted means over windows, on disk."""

    def __init__(self, folder: Path, bands: int, grid: Grid) -> None:
        """Create the arrays in `folder`, which exists and is the caller's to remove."""
        self._grid = grid
        self._shape = (bands, grid.rows, grid.columns)
        self._sum = np.lib.format.open_memmap(folder / "sum.npy", "w+", np.float32, self._shape)
        self._weight = np.lib.format.open_memmap(folder / "weight.npy", "w+", np.float32, self._shape)
        self._ramp = ramp()

    def add(self, window: Grid, values: NDArray[np.float32]) -> None:
        """Add (bands, WINDOW, WINDOW) of a window, which may reach beyond the grid; NaN is ignored."""
        row, column = offset(window, self._grid)
        # Cells of the window that lie in the grid.
        rows = slice(max(0, -row), min(WINDOW, self._shape[1] - row))
        columns = slice(max(0, -column), min(WINDOW, self._shape[2] - column))
        own = values[:, rows, columns]
        weight = np.where(np.isfinite(own), self._ramp[rows, columns], 0)
        place = (
            slice(None),
            slice(row + rows.start, row + rows.stop),
            slice(column + columns.start, column + columns.stop),
        )
        self._sum[place] += weight * np.nan_to_num(own)
        self._weight[place] += weight

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        """Return (bands, rows, columns) of some rows; NaN where all windows are NaN."""
        weight = np.asarray(self._weight[:, first:last])
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(weight > 0, np.asarray(self._sum[:, first:last]) / weight, np.nan).astype(np.float32)
