"""Estimate up and east between scatterers by a Gaussian process, from all tracks at once.

Cokriging (Wackernagel 2003, chapter 24) with independent Matern-3/2 processes for up and east, seen along lines of
sight: `change = los_up up + los_east east + noise`; the northward part is left out, which satellites near polar orbits
hardly see. The covariance is fitted to the scatterers themselves by maximum likelihood (Rasmussen and Williams 2006,
equation 5.8), the mean is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize
from scipy.spatial.distance import cdist

from plumbline.fields.prepare.grid import Grid, Observations

Float = NDArray[np.floating[Any]]
FITTED = 260
"""Observations of a group that the covariance is fitted to."""
MOST = 1800
"""Observations of one solution; from more on they are gathered in larger cells."""
VAGUE_MM = 60.0
"""Standard deviation of the unknown mean."""
CERTAIN_MM = 0.02
"""Standard deviation of what does not move at all."""
BOUNDS = ((-2.5, 5.0), (-3.5, 4.5), (3.3, 6.9), (-1.6, 1.6), (-3.0, 3.0))
"""Of the logarithms of `Covariance`: mm, mm, m, 1, mm."""
FIRST = (1.0, 0.3, 4.7, 0.0, -1.0)


class Covariance(NamedTuple):
    """Fitted parameters of the Gaussian process."""

    up_mm: float
    """Standard deviation."""
    east_mm: float
    length_m: float
    noise_scale: float
    """What the observations' standard errors are multiplied with."""
    nugget_mm: float
    """Noise beyond them, and movement of single scatterers."""


class Estimate(NamedTuple):
    """Estimate of up and east on a grid: arrays (2, rows, columns), mm."""

    mean: Float
    deviation: Float


@dataclass(frozen=True)
class _Points:
    """Observations as equations of up and east."""

    place: Float
    """(n, 2) m"""
    view: Float
    """(n, 2) `los_up`, `los_east`"""
    value: Float
    error: Float
    delay: Float
    """Standard error that is shared over `delay_m`, within a track."""
    delay_m: Float
    track: NDArray[np.intp]

    def take(self, rows: NDArray[np.intp]) -> _Points:
        return replace(self, **{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def air(self) -> Float:
        """Return the covariance (n, n) of the delays, mm^2."""
        reach = np.sqrt(np.outer(self.delay_m, self.delay_m))
        shared = np.outer(self.delay, self.delay) * np.exp(-cdist(self.place, self.place) / reach)
        return np.where(self.track[:, None] == self.track, shared, 0.0)


def fit_covariance(found: Observations, cell_m: float, seed: int = 0, groups: int = 4) -> Covariance:
    """Fit the covariance by maximum composite likelihood (Varin et al. 2011) of drawn groups of the observations.

    Neighbours tell the noise and the length, and a group from all over tells how much moves as a whole.

    Args:
        found: at least one. cell_m: cells in which observations are gathered before. seed: of the draw.
        groups: of `FITTED` observations; the first from all over, the others neighbours of each other.
    """
    rng = np.random.default_rng(seed)
    points = _points(found, cell_m)
    parts = [_Group.of(part) for part in _drawn(points, rng, groups)]
    share = min(1.0, len(points.value) / sum(len(part.points.value) for part in parts))

    def loss(logs: Float) -> float:
        at = Covariance(*np.exp(logs))
        # Weak priors, by which few points, or points that do not move, have an answer too.
        prior = 0.5 * (((logs - np.array(FIRST)) / np.array([2.0, 2.0, 1.0, 0.6, 1.5])) ** 2).sum()
        return float(share * sum(part.loss(at) for part in parts) + prior)

    best = optimize.minimize(loss, FIRST, method="L-BFGS-B", bounds=BOUNDS, options={"maxiter": 25})
    return Covariance(*map(float, np.exp(best.x)))


@dataclass(frozen=True)
class _Group:
    """Data that the likelihood of a group of observations needs for each covariance."""

    points: _Points
    distance: Float
    up: Float
    east: Float
    air: Float

    @classmethod
    def of(cls, points: _Points) -> _Group:
        up, east = (np.outer(points.view[:, k], points.view[:, k]) for k in (0, 1))
        return cls(points, cdist(points.place, points.place), up, east, points.air())

    def loss(self, at: Covariance) -> float:
        """Return the negative logarithm of the likelihood, up to a constant."""
        covariance = _matern(self.distance, at.length_m) * (at.up_mm**2 * self.up + at.east_mm**2 * self.east)
        covariance += VAGUE_MM**2 * (self.up + self.east) + self.air
        covariance[np.diag_indices_from(covariance)] += _noise(self.points.error, at) ** 2
        try:
            lower = linalg.cholesky(covariance, lower=True, check_finite=False)
        except linalg.LinAlgError:
            return 1e10
        left = linalg.solve_triangular(lower, self.points.value, lower=True, check_finite=False)
        return float(0.5 * left @ left + np.log(np.diag(lower)).sum())


def estimate(found: Observations, grid: Grid, covariance: Covariance, halo_m: float = 160.0) -> Estimate:
    """Estimate mean and standard deviation of up and east in the cells of a grid.

    Solved on every second cell, the deviation on every fourth, and interpolated: both are smooth.

    Args:
        found: of the grid and around it. grid: small enough for one solution, see `MOST`.
        covariance: fitted. halo_m: how far beyond the grid observations count.
    """
    near = found.take(grid.near(found.east_north, halo_m))
    shape = (2, grid.rows, grid.columns)
    prior = np.array([covariance.up_mm, covariance.east_mm])[:, None, None]
    if not len(near):
        return Estimate(np.zeros(shape), np.broadcast_to(np.hypot(prior, VAGUE_MM), shape).copy())
    points = _points(near, grid.cell_m)
    wider = grid.cell_m
    while len(points.value) > MOST:
        wider *= 1.5
        points = _points(near, wider)
    covariances = _between(points, points, covariance) + points.air()
    covariances[np.diag_indices_from(covariances)] += _noise(points.error, covariance) ** 2
    lower = linalg.cholesky(covariances, lower=True, check_finite=False)
    alpha = linalg.cho_solve((lower, True), points.value, check_finite=False)

    def at(step: int) -> tuple[Float, tuple[Float, Float]]:
        northings, eastings = _every(grid.northings, step), _every(grid.eastings, step)
        east, north = np.meshgrid(eastings, northings)
        return np.column_stack([east.ravel(), north.ravel()]), (northings, eastings)

    place, axes = at(2)
    cross = _towards(place, points, covariance)
    mean = np.stack([_spread((part @ alpha).reshape(len(axes[0]), len(axes[1])), axes, grid) for part in cross])
    place, axes = at(4)
    deviation = []
    for part, own in zip(_towards(place, points, covariance), prior.ravel(), strict=True):
        known = linalg.solve_triangular(lower, part.T, lower=True, check_finite=False)
        variance = own**2 + VAGUE_MM**2 - (known**2).sum(axis=0)
        values = np.sqrt(np.maximum(variance, 1e-4)).reshape(len(axes[0]), len(axes[1]))
        deviation.append(_spread(values, axes, grid))
    if not points.view[:, 1].any():  # see `Observations.along_line`
        mean[1], deviation[1] = 0.0, np.full(shape[1:], CERTAIN_MM)
    return Estimate(mean, np.stack(deviation))


def _points(found: Observations, cell_m: float) -> _Points:
    """Gather observations in cells, by track, at their mean place in the cell."""
    cell = np.floor(found.east_north / cell_m).astype(np.int64)
    key = (cell[:, 0] * 2**31 + cell[:, 1]) * 64 + found.track
    first, group, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)[1:]
    weight = 1 / found.error**2
    total = np.bincount(group, weight, len(count))

    def mean(values: Float) -> Float:
        return np.asarray(np.bincount(group, weight * values, len(count)) / total, float)

    place = np.column_stack([mean(found.east_north[:, k] - found.east_north[0, k]) for k in (0, 1)])
    view = np.column_stack([mean(found.los[:, 2]), mean(found.los[:, 0])])
    shared = (mean(found.delay), found.delay_m[first], found.track[first])
    return _Points(place + found.east_north[0], view, mean(found.change), 1 / np.sqrt(total), *shared)


def _drawn(points: _Points, rng: np.random.Generator, groups: int) -> list[_Points]:
    count = len(points.value)
    if count <= FITTED:
        return [points]
    rows = [rng.choice(count, FITTED, replace=False)]
    for centre in rng.choice(count, groups - 1, replace=False):
        rows.append(np.argsort(((points.place - points.place[centre]) ** 2).sum(axis=1))[:FITTED])
    return [points.take(own) for own in rows]


def _matern(distance: Float, length_m: float) -> Float:
    scaled = np.sqrt(3) / length_m * distance
    return np.asarray((1 + scaled) * np.exp(-scaled), float)


def _noise(error: Float, at: Covariance) -> Float:
    return np.asarray(np.hypot(at.noise_scale * error, at.nugget_mm), float)


def _between(a: _Points, b: _Points, at: Covariance) -> Float:
    correlation = _matern(cdist(a.place, b.place), at.length_m)
    up, east = (np.outer(a.view[:, k], b.view[:, k]) for k in (0, 1))
    return np.asarray(correlation * (at.up_mm**2 * up + at.east_mm**2 * east) + VAGUE_MM**2 * (up + east), float)


def _towards(place: Float, points: _Points, at: Covariance) -> tuple[Float, Float]:
    """Return covariances (M, n) of up, and of east, at places (M, 2) with the observations."""
    correlation = _matern(cdist(place, points.place), at.length_m)
    up = (at.up_mm**2 * correlation + VAGUE_MM**2) * points.view[:, 0]
    return up, (at.east_mm**2 * correlation + VAGUE_MM**2) * points.view[:, 1]


def _every(centres: Float, step: int) -> Float:
    """Return every `step`-th cell, and the last, so that nothing is extrapolated."""
    return np.asarray(centres[np.unique(np.r_[np.arange(0, len(centres), step), len(centres) - 1])], float)


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
