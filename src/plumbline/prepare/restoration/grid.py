"""Lay a grid over scatterers, and gather them in its cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.prepare.restoration.observations import EAST, WEST, Observations

Float = NDArray[np.floating[Any]]
SIDES = (WEST, EAST)


@dataclass(frozen=True)
class Grid:
    """Square cells, rows from north to south."""

    left: float
    """Easting of the western edge, m."""
    top: float
    """Northing of the northern edge, m."""
    cell_m: float
    rows: int
    columns: int

    def window(self, row: int, column: int, rows: int, columns: int) -> Grid:
        """Return a window of the grid, which may reach beyond it."""
        return Grid(self.left + column * self.cell_m, self.top - row * self.cell_m, self.cell_m, rows, columns)

    def cut(self, left: float, bottom: float, right: float, top: float) -> Grid:
        """Return the cells that reach into bounds, m; at least one cell, and none beyond the grid."""
        first_column, last_column = np.clip(
            [np.floor((left - self.left) / self.cell_m), np.ceil((right - self.left) / self.cell_m)], 0, self.columns
        )
        first_row, last_row = np.clip(
            [np.floor((self.top - top) / self.cell_m), np.ceil((self.top - bottom) / self.cell_m)], 0, self.rows
        )
        row, column = min(int(first_row), self.rows - 1), min(int(first_column), self.columns - 1)
        return self.window(row, column, max(1, int(last_row) - row), max(1, int(last_column) - column))

    @property
    def eastings(self) -> Float:
        """Return the eastings (columns,) of the cells' centres, m."""
        return np.asarray(self.left + (np.arange(self.columns) + 0.5) * self.cell_m, float)

    @property
    def northings(self) -> Float:
        """Return the northings (rows,) of the cells' centres, m."""
        return np.asarray(self.top - (np.arange(self.rows) + 0.5) * self.cell_m, float)

    def place(self, east_north: Float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return row and column (N,) of positions (N, 2); outside of the grid they are below 0 or too large."""
        column = np.floor((east_north[:, 0] - self.left) / self.cell_m).astype(np.intp)
        row = np.floor((self.top - east_north[:, 1]) / self.cell_m).astype(np.intp)
        return row, column

    def near(self, east_north: Float, margin_m: float) -> NDArray[np.bool_]:
        """Return (N,) whether positions lie in the grid or at most `margin_m` beside it."""
        east, north = east_north[:, 0] - self.left, self.top - east_north[:, 1]
        wide, high = self.columns * self.cell_m, self.rows * self.cell_m
        return (east >= -margin_m) & (east < wide + margin_m) & (north >= -margin_m) & (north < high + margin_m)


def grid_over(east_north: Float, cell_m: float, margin_m: float) -> Grid:
    """Return the grid of whole cells that covers positions (N, 2) with a margin around them."""
    left, bottom = np.floor((east_north.min(axis=0) - margin_m) / cell_m) * cell_m
    right, top = np.ceil((east_north.max(axis=0) + margin_m) / cell_m) * cell_m
    return Grid(float(left), float(top), cell_m, round((top - bottom) / cell_m), round((right - left) / cell_m))


@dataclass(frozen=True)
class Binned:
    """Scatterers gathered in cells, by the side that they are seen from; NaN where a cell has none.

    Each is an array (2, rows, columns): `WEST`, `EAST`.
    """

    change: Float
    """Mean weighted by precision, mm."""
    error: Float
    """Its standard error, mm."""
    count: Float
    """Scatterers; 0 where there is none."""
    los_east: Float
    los_up: Float


def bin_observations(found: Observations, grid: Grid) -> Binned:
    """Gather observations in the cells of a grid; those outside are left out."""
    row, column = grid.place(found.east_north)
    inside = (row >= 0) & (row < grid.rows) & (column >= 0) & (column < grid.columns)
    size = 2 * grid.rows * grid.columns
    cell = (found.side * grid.rows + row) * grid.columns + column
    cell = cell[inside]
    precision = 1 / found.error[inside] ** 2

    def total(values: Float) -> Float:
        return np.asarray(np.bincount(cell, values, size), float).reshape(2, grid.rows, grid.columns)

    weight = total(precision)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Binned(
            total(precision * found.change[inside]) / weight,
            1 / np.sqrt(np.where(weight > 0, weight, np.nan)),
            total(np.ones(len(cell))),
            total(precision * found.los[inside, 0]) / weight,
            total(precision * found.los[inside, 2]) / weight,
        )
