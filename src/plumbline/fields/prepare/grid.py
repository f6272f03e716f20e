"""Make a grid over points, and bin their observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from plumbline.core.arrays import Float
from plumbline.core.errors import InputError
from plumbline.core.jobs import in_threads, one_blas_thread
from plumbline.fields.prepare.changes import estimate_changes
from plumbline.fields.prepare.unwrapping import remove_steps
from plumbline.prepare.scatterers import check_epochs, period_overlap
from plumbline.sources.points.epochs import DAYS_A_YEAR
from plumbline.sources.points.track import Track

NEIGHBOURS = 9
"""Number of nearest scatterers, itself included, that a scatterer is compared with."""
NEAR_M = 80.0
SUSPECT = 3.0
"""Standard deviations from its neighbours' median beyond which a scatterer counts less."""
WEST, EAST = 0, 1
"""Sides that a satellite looks from: its horizontal direction seen from the ground."""


@dataclass(frozen=True)
class Observations:
    """N scatterers of all tracks."""

    east_north: Float
    """(N, 2) m, in the products' CRS."""
    los: Float
    """(N, 3) unit vector from ground to satellite."""
    change: Float
    """(N,) from the first to the last epoch of all tracks, mm towards the satellite."""
    error: Float
    """(N,) standard error, mm."""
    delay: Float
    """(N,) standard error that neighbours of the same track share, mm: the air."""
    delay_m: Float
    """(N,) length over which they share it, m."""
    apart: Float
    """(N,) factor on `error` of one that differs from its neighbours; 1 for the others."""
    track: NDArray[np.intp]
    """(N,) index of the track."""

    def __len__(self) -> int:
        return len(self.change)

    @property
    def side(self) -> NDArray[np.intp]:
        """(N,) `WEST` or `EAST`."""
        return np.where(self.los[:, 0] > 0, EAST, WEST)

    @property
    def directions(self) -> int:
        """Number of sides that the scatterers are seen from, 1 or 2."""
        return len(np.unique(self.side))

    def along_line(self) -> Self:
        """Return the observations in a frame with the line of sight as `up`, without east.

        One direction gives one number for a place, from which up and east cannot be separated.
        """
        return replace(self, los=np.broadcast_to([0.0, 0.0, 1.0], self.los.shape))

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Self:
        """Select the rows `index`, in that order."""
        return replace(
            self, **{field.name: getattr(self, field.name)[index] for field in fields(self)}
        )


def years_of(tracks: Sequence[Track]) -> float:
    """Return the length of the common period of tracks, from the first to the last epoch of any."""
    periods = period_overlap(tracks, quiet=True)
    return float((periods.end - periods.start) / np.timedelta64(1, "D")) / DAYS_A_YEAR


def observe(tracks: Sequence[Track]) -> Observations:
    """Estimate the changes of all scatterers over the common period; leave out those with
    too few epochs.

    Raises:
        InputError: a track has too few epochs, or no scatterer is left.
    """
    check_epochs(tracks, 2)
    periods = period_overlap(tracks)
    years = years_of(tracks)
    with one_blas_thread():
        parts = list(
            in_threads(
                lambda number: _observe_track(tracks[number], number, periods.start, years),
                periods.used,
            )
        )
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(Observations)
    }
    observations = Observations(**columns)
    if not len(observations):
        raise InputError(
            "no point has enough epochs with a value to estimate a change. Give products of a "
            "longer time.",
            key="points.too_few_epochs",
        )
    return observations


def _observe_track(track: Track, number: int, start: np.datetime64, years: float) -> Observations:
    when = (track.epochs - start) / np.timedelta64(1, "D") / DAYS_A_YEAR / max(years, 1e-9)
    place = np.column_stack([track.easting, track.northing])
    changes = estimate_changes(
        remove_steps(track.displacement, place, track.epochs), when, years, place
    )
    rows = np.flatnonzero(np.isfinite(changes.change) & np.isfinite(place).all(axis=1))
    change, error, delay, delay_m = (part[rows] for part in changes)
    los, track_index = track.los[rows].astype(float), np.full(len(rows), number, np.intp)
    observations = Observations(
        place[rows], los, change, error, delay, delay_m, np.ones(len(rows)), track_index
    )
    return replace(observations, apart=_outlier_factors(observations))


def _outlier_factors(observations: Observations) -> Float:
    """Return the factor (N,) on a scatterer's error: 1 if it agrees with the median of its
    neighbours."""
    if len(observations) < NEIGHBOURS:
        return np.ones(len(observations))
    distance, near = cKDTree(observations.east_north).query(observations.east_north, k=NEIGHBOURS)
    values = np.where(distance <= NEAR_M, observations.change[near], np.nan)
    median = np.nanmedian(values, axis=1)
    spread = 1.4826 * np.nanmedian(np.abs(values - median[:, None]), axis=1)
    enough = np.isfinite(values).sum(axis=1) >= 4
    deviations = np.abs(observations.change - median) / np.sqrt(
        observations.error**2 + spread**2 + 0.1
    )
    return np.where(enough, np.maximum(1.0, deviations / SUSPECT) ** 2, 1.0)


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
        return Grid(
            self.left + column * self.cell_m,
            self.top - row * self.cell_m,
            self.cell_m,
            rows,
            columns,
        )

    def cut(self, west: float, south: float, east: float, north: float) -> Grid:
        """Return the cells that reach into bounds, m; at least one cell, and none beyond the
        grid."""
        first_column, last_column = np.clip(
            [np.floor((west - self.left) / self.cell_m), np.ceil((east - self.left) / self.cell_m)],
            0,
            self.columns,
        )
        first_row, last_row = np.clip(
            [np.floor((self.top - north) / self.cell_m), np.ceil((self.top - south) / self.cell_m)],
            0,
            self.rows,
        )
        row, column = min(int(first_row), self.rows - 1), min(int(first_column), self.columns - 1)
        return self.window(
            row, column, max(1, int(last_row) - row), max(1, int(last_column) - column)
        )

    @property
    def eastings(self) -> Float:
        """Return the eastings (columns,) of the cells' centres, m."""
        return np.asarray(self.left + (np.arange(self.columns) + 0.5) * self.cell_m, float)

    @property
    def northings(self) -> Float:
        """Return the northings (rows,) of the cells' centres, m."""
        return np.asarray(self.top - (np.arange(self.rows) + 0.5) * self.cell_m, float)

    def place(self, east_north: Float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return row and column (N,) of positions (N, 2); outside of the grid they are
        below 0 or too large."""
        column = np.floor((east_north[:, 0] - self.left) / self.cell_m).astype(np.intp)
        row = np.floor((self.top - east_north[:, 1]) / self.cell_m).astype(np.intp)
        return row, column

    def near(self, east_north: Float, margin_m: float) -> NDArray[np.bool_]:
        """Return (N,) whether positions are in the grid or at most `margin_m` outside."""
        east, north = east_north[:, 0] - self.left, self.top - east_north[:, 1]
        wide, high = self.columns * self.cell_m, self.rows * self.cell_m
        return (
            (east >= -margin_m)
            & (east < wide + margin_m)
            & (north >= -margin_m)
            & (north < high + margin_m)
        )


def grid_over(east_north: Float, cell_m: float, margin_m: float) -> Grid:
    """Return the grid of whole cells that covers positions (N, 2) with a margin around them."""
    left_m, bottom_m = np.floor((east_north.min(axis=0) - margin_m) / cell_m) * cell_m
    right_m, top_m = np.ceil((east_north.max(axis=0) + margin_m) / cell_m) * cell_m
    rows, columns = round((top_m - bottom_m) / cell_m), round((right_m - left_m) / cell_m)
    return Grid(float(left_m), float(top_m), cell_m, rows, columns)


@dataclass(frozen=True)
class Binned:
    """Scatterers gathered in cells, by the side that they are seen from; NaN where a cell has none.

    Each is an array (2, rows, columns): `WEST`, `EAST`.
    """

    change: Float
    """Mean weighted by precision, mm."""
    error: Float
    """Standard error of the mean, mm; scatterers that differ from their neighbours enlarge it."""
    count: Float
    """Scatterers; 0 where there is none."""
    los_east: Float
    los_up: Float


def bin_observations(observations: Observations, grid: Grid) -> Binned:
    """Gather observations in the cells of a grid; those outside are left out."""
    row, column = grid.place(observations.east_north)
    inside = (row >= 0) & (row < grid.rows) & (column >= 0) & (column < grid.columns)
    size = 2 * grid.rows * grid.columns
    cell = (observations.side * grid.rows + row) * grid.columns + column
    cell = cell[inside]
    precision = 1 / (observations.error * observations.apart)[inside] ** 2

    def total(values: Float) -> Float:
        return np.asarray(np.bincount(cell, values, size), float).reshape(
            2, grid.rows, grid.columns
        )

    weight = total(precision)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Binned(
            total(precision * observations.change[inside]) / weight,
            1 / np.sqrt(np.where(weight > 0, weight, np.nan)),
            total(np.ones(len(cell))),
            total(precision * observations.los[inside, 0]) / weight,
            total(precision * observations.los[inside, 2]) / weight,
        )
