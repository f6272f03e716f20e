"""Estimate up and east between scatterers by a Gaussian process, from all tracks at once.

Cokriging (Wackernagel 2003, chapter 24) with the covariance of `covariance.py`, which differs by
place by the factors of `local_covariance.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.spatial.distance import cdist

from plumbline.core.arrays import Float
from plumbline.fields.prepare.covariance import (
    VAGUE_MM,
    Covariance,
    Points,
    gather,
    noise_deviation,
)
from plumbline.fields.prepare.grid import Grid, Observations
from plumbline.fields.prepare.local_covariance import Places, correlation, fit_places

MAX_OBSERVATIONS = 1800
"""Largest number of observations of one solution; more are gathered in larger cells."""
CERTAIN_MM = 0.02
"""Standard deviation of a component that does not move at all."""
ROUNDS, SUSPECT = 2, 2.5
"""Rounds of leave-one-out residuals, and standard errors beyond which observations count less."""


class ProcessEstimate(NamedTuple):
    """Estimate of up and east on a grid: arrays (2, rows, columns), mm."""

    mean: Float
    deviation: Float


def estimate(
    observations: Observations, grid: Grid, covariance: Covariance, halo_m: float = 160.0
) -> ProcessEstimate:
    """Estimate mean and standard deviation of up and east in the cells of a grid.

    Solved on every second cell, the deviation on every fourth, and interpolated: both are smooth.

    Args:
        observations: those of the grid and around it.
        grid: small enough for one solution, see `MAX_OBSERVATIONS`. covariance: fitted to all.
        halo_m: distance beyond the grid up to which observations count.
    """
    nearby = observations.take(grid.near(observations.east_north, halo_m))
    shape = (2, grid.rows, grid.columns)
    prior = np.array([covariance.up_mm, covariance.east_mm])[:, None, None]
    if not len(nearby):
        return ProcessEstimate(
            np.zeros(shape), np.broadcast_to(np.hypot(prior, VAGUE_MM), shape).copy()
        )
    points = gather(nearby, grid.cell_m)
    wider = grid.cell_m
    while len(points.value) > MAX_OBSERVATIONS:
        wider *= 1.5
        points = gather(nearby, wider)
    solved = _SolvedCokriging(points, covariance, fit_places(points, covariance, grid, halo_m))
    place, axes = _coarse_centres(grid, 2)
    size = len(axes[0]), len(axes[1])
    mean = [
        _interpolate_grid((part @ solved.weights).reshape(size), axes, grid)
        for part, _ in solved.towards(place)
    ]
    deviation = []
    place, axes = _coarse_centres(grid, 4)
    for part, variance in solved.towards(place):
        explained = linalg.solve_triangular(solved.lower, part.T, lower=True, check_finite=False)
        values = np.sqrt(np.maximum(variance - (explained**2).sum(axis=0), 1e-4)).reshape(
            len(axes[0]), len(axes[1])
        )
        deviation.append(_interpolate_grid(values, axes, grid))
    if not points.view[:, 1].any():  # see `Observations.along_line`
        mean[1], deviation[1] = np.zeros(shape[1:]), np.full(shape[1:], CERTAIN_MM)
    return ProcessEstimate(np.stack(mean), np.stack(deviation))


class _SolvedCokriging:
    """The equations of cokriging, solved."""

    def __init__(self, points: Points, whole: Covariance, places: Places) -> None:
        self._points, self._whole, self._places = points, whole, places
        self._factors = places.at(points.place)
        self._length = self._factors.length * whole.length_m
        up, east = points.view.T
        distance = cdist(points.place, points.place)
        covariance = correlation(distance, self._length, self._length)
        size_up, size_east = (
            size * self._factors.amplitude * part
            for size, part in ((whole.up_mm, up), (whole.east_mm, east))
        )
        covariance *= np.outer(size_up, size_up) + np.outer(size_east, size_east)
        covariance += VAGUE_MM**2 * (np.outer(up, up) + np.outer(east, east)) + points.air(distance)
        noise = (noise_deviation(points.error, whole) * self._factors.noise) ** 2
        self.lower, self.weights = self._solve(covariance, noise)
        for _ in range(ROUNDS):
            # Leave-one-out residuals in standard errors (Rasmussen and Williams 2006, eq. 5.12).
            inverse = linalg.lapack.dpotri(self.lower, lower=1)[0]
            squared_residuals = self.weights**2 / np.diag(inverse)
            noise = noise * np.maximum(1.0, squared_residuals / SUSPECT**2)
            self.lower, self.weights = self._solve(covariance, noise)

    def _solve(self, covariance: Float, noise: Float) -> tuple[Float, Float]:
        noisy = covariance.copy()
        noisy[np.diag_indices_from(noisy)] += noise
        lower = linalg.cholesky(noisy, lower=True, overwrite_a=True, check_finite=False)
        return lower, linalg.cho_solve((lower, True), self._points.value, check_finite=False)

    def towards(self, place: Float) -> list[tuple[Float, Float]]:
        """Return, of up and of east at places (M, 2): covariances (M, n) with the
        observations, and variances (M,)."""
        factors = self._places.at(place)
        shared = correlation(
            cdist(place, self._points.place), factors.length * self._whole.length_m, self._length
        )
        shared *= factors.amplitude[:, None] * self._factors.amplitude
        return [
            (
                (size**2 * shared + VAGUE_MM**2) * self._points.view[:, k],
                (size * factors.amplitude) ** 2 + VAGUE_MM**2,
            )
            for k, size in enumerate((self._whole.up_mm, self._whole.east_mm))
        ]


def _coarse_centres(grid: Grid, step: int) -> tuple[Float, tuple[Float, Float]]:
    """Return centres (M, 2) and axes of every `step`-th cell and the last, for interpolation."""
    northings, eastings = (
        centres[np.unique(np.r_[np.arange(0, len(centres), step), len(centres) - 1])]
        for centres in (grid.northings, grid.eastings)
    )
    east, north = np.meshgrid(eastings, northings)
    return np.column_stack([east.ravel(), north.ravel()]), (northings, eastings)


def _interpolate_grid(values: Float, axes: tuple[Float, Float], grid: Grid) -> Float:
    """Interpolate values at `axes` (falling northings, rising eastings) to all cells of the
    grid, bilinearly."""
    rows = _interpolate_rows(-axes[0], -grid.northings, values)
    return _interpolate_rows(axes[1], grid.eastings, rows.T).T


def _interpolate_rows(nodes: Float, wanted: Float, values: Float) -> Float:
    """Interpolate linearly along the first axis."""
    if len(nodes) == 1:
        return np.repeat(values, len(wanted), axis=0)
    after = np.clip(np.searchsorted(nodes, wanted), 1, len(nodes) - 1)
    share = (wanted - nodes[after - 1]) / (nodes[after] - nodes[after - 1])
    return np.asarray(
        values[after - 1] * (1 - share)[:, None] + values[after] * share[:, None], float
    )
