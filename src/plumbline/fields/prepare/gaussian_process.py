"""Estimate up and east between scatterers by a Gaussian process, from all tracks at once.

Cokriging (Wackernagel 2003, chapter 24) with the covariance of `covariance.py`, which differs by place as
`local_covariance.py` says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.spatial.distance import cdist

from plumbline.fields.prepare.covariance import VAGUE_MM, Covariance, Points, gather, noise_deviation
from plumbline.fields.prepare.grid import Grid, Observations
from plumbline.fields.prepare.local_covariance import Places, correlation, fit_places

Float = NDArray[np.floating[Any]]
MOST = 1800
"""Observations of one solution; from more on they are gathered in larger cells."""
CERTAIN_MM = 0.02
"""Standard deviation of what does not move at all."""
ROUNDS, SUSPECT = 2, 2.5
"""Solutions in which observations are judged by the others, and standard errors from which on they count less."""


class Estimate(NamedTuple):
    """Estimate of up and east on a grid: arrays (2, rows, columns), mm."""

    mean: Float
    deviation: Float


def estimate(found: Observations, grid: Grid, covariance: Covariance, halo_m: float = 160.0) -> Estimate:
    """Estimate mean and standard deviation of up and east in the cells of a grid.

    Solved on every second cell, the deviation on every fourth, and interpolated: both are smooth.

    Args:
        found: of the grid and around it. grid: small enough for one solution, see `MOST`.
        covariance: fitted to all. halo_m: how far beyond the grid observations count.
    """
    near = found.take(grid.near(found.east_north, halo_m))
    shape = (2, grid.rows, grid.columns)
    prior = np.array([covariance.up_mm, covariance.east_mm])[:, None, None]
    if not len(near):
        return Estimate(np.zeros(shape), np.broadcast_to(np.hypot(prior, VAGUE_MM), shape).copy())
    points = gather(near, grid.cell_m)
    wider = grid.cell_m
    while len(points.value) > MOST:
        wider *= 1.5
        points = gather(near, wider)
    solved = _Solved(points, covariance, fit_places(points, covariance, grid, halo_m))
    mean, deviation = [], []
    place, axes = _every(grid, 2)
    for part, _ in solved.towards(place):
        mean.append(_spread((part @ solved.weights).reshape(len(axes[0]), len(axes[1])), axes, grid))
    place, axes = _every(grid, 4)
    for part, own in solved.towards(place):
        known = linalg.solve_triangular(solved.lower, part.T, lower=True, check_finite=False)
        values = np.sqrt(np.maximum(own - (known**2).sum(axis=0), 1e-4)).reshape(len(axes[0]), len(axes[1]))
        deviation.append(_spread(values, axes, grid))
    if not points.view[:, 1].any():  # see `Observations.along_line`
        mean[1], deviation[1] = np.zeros(shape[1:]), np.full(shape[1:], CERTAIN_MM)
    return Estimate(np.stack(mean), np.stack(deviation))


class _Solved:
    """The equations of cokriging, solved."""

    def __init__(self, points: Points, whole: Covariance, places: Places) -> None:
        self._points, self._whole, self._places = points, whole, places
        self._own = places.at(points.place)
        self._length = self._own.length * whole.length_m
        up, east = points.view.T
        distance = cdist(points.place, points.place)
        covariance = correlation(distance, self._length, self._length)
        size_up, size_east = (
            size * self._own.amplitude * part for size, part in ((whole.up_mm, up), (whole.east_mm, east))
        )
        covariance *= np.outer(size_up, size_up) + np.outer(size_east, size_east)
        covariance += VAGUE_MM**2 * (np.outer(up, up) + np.outer(east, east)) + points.air(distance)
        noise = (noise_deviation(points.error, whole) * self._own.noise) ** 2
        self.lower, self.weights = self._solve(covariance, noise)
        for _ in range(ROUNDS):
            # Squares of what each is off from the estimate by all others (Rasmussen and Williams 2006, equation 5.12).
            inverse = linalg.lapack.dpotri(self.lower, lower=1)[0]
            off = self.weights**2 / np.diag(inverse)
            noise = noise * np.maximum(1.0, off / SUSPECT**2)
            self.lower, self.weights = self._solve(covariance, noise)

    def _solve(self, covariance: Float, noise: Float) -> tuple[Float, Float]:
        whole = covariance.copy()
        whole[np.diag_indices_from(whole)] += noise
        lower = linalg.cholesky(whole, lower=True, overwrite_a=True, check_finite=False)
        return lower, linalg.cho_solve((lower, True), self._points.value, check_finite=False)

    def towards(self, place: Float) -> list[tuple[Float, Float]]:
        """Return, of up and of east at places (M, 2): covariances (M, n) with the observations, and variances (M,)."""
        own = self._places.at(place)
        shared = correlation(cdist(place, self._points.place), own.length * self._whole.length_m, self._length)
        shared *= own.amplitude[:, None] * self._own.amplitude
        return [
            ((size**2 * shared + VAGUE_MM**2) * self._points.view[:, k], (size * own.amplitude) ** 2 + VAGUE_MM**2)
            for k, size in enumerate((self._whole.up_mm, self._whole.east_mm))
        ]


def _every(grid: Grid, step: int) -> tuple[Float, tuple[Float, Float]]:
    """Return centres (M, 2) of every `step`-th cell, and the last, so that nothing is extrapolated; and the axes."""
    northings, eastings = (
        centres[np.unique(np.r_[np.arange(0, len(centres), step), len(centres) - 1])]
        for centres in (grid.northings, grid.eastings)
    )
    east, north = np.meshgrid(eastings, northings)
    return np.column_stack([east.ravel(), north.ravel()]), (northings, eastings)


def _spread(values: Float, axes: tuple[Float, Float], grid: Grid) -> Float:
    """Interpolate values at `axes` (falling northings, rising eastings) to all cells of the grid, bilinearly."""
    rows = _along(-axes[0], -grid.northings, values)
    return _along(axes[1], grid.eastings, rows.T).T


def _along(known: Float, wanted: Float, values: Float) -> Float:
    """Interpolate linearly along the first axis."""
    if len(known) == 1:
        return np.repeat(values, len(wanted), axis=0)
    after = np.clip(np.searchsorted(known, wanted), 1, len(known) - 1)
    share = (wanted - known[after - 1]) / (known[after] - known[after - 1])
    return np.asarray(values[after - 1] * (1 - share)[:, None] + values[after] * share[:, None], float)
