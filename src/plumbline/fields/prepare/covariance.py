"""Gather observations to equations, and fit the covariance of up and east to them.

Up and east are independent Matern-3/2 processes, seen along lines of sight: `change =
los_up up + los_east east + noise`. The northward part is left out, which satellites near
polar orbits hardly see. The covariance is fitted to the scatterers themselves by maximum
likelihood (Rasmussen and Williams 2006, equation 5.8), the mean is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize
from scipy.spatial.distance import cdist

from plumbline.core.arrays import Float
from plumbline.fields.prepare.grid import Observations

GROUP_SIZE = 130
"""Number of observations of a group that the covariance is fitted to."""
VAGUE_MM = 60.0
"""Standard deviation of the unknown mean."""
BOUNDS = ((-2.5, 5.0), (-3.5, 4.5), (3.3, 6.9), (-1.6, 1.6), (-3.0, 3.0))
"""Bounds of the logarithms of `Covariance`: mm, mm, m, 1, mm."""
START_LOGS = (1.0, 0.3, 4.7, 0.0, -1.0)
PRIOR = np.array([2.0, 2.0, 1.0, 0.6, 1.5])
"""Standard deviations of the logarithms around `START_LOGS`."""


class Covariance(NamedTuple):
    """Fitted parameters of the Gaussian process."""

    up_mm: float
    """Standard deviation."""
    east_mm: float
    length_m: float
    noise_scale: float
    """Factor on the observations' standard errors."""
    nugget_mm: float
    """Noise beyond them, and movement of single scatterers."""
    delay_mm: float = 0.0
    """Standard error that the typical scatterer shares with its neighbours; not fitted, see
    `delay.py`."""


@dataclass(frozen=True)
class Points:
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

    def take(self, rows: NDArray[np.intp]) -> Points:
        """Select the rows, in that order."""
        return replace(
            self, **{field.name: getattr(self, field.name)[rows] for field in fields(self)}
        )

    def air(self, distance: Float, rows: NDArray[np.intp] | slice = slice(None)) -> Float:
        """Return the covariance (..., n, n) of the delays of points `rows` (..., n) at
        these distances, mm^2."""
        size, reach, track = self.delay[rows], self.delay_m[rows], self.track[rows]
        shared = _outer(size) * np.exp(-distance / np.sqrt(_outer(reach)))
        return np.where(track[..., :, None] == track[..., None, :], shared, 0.0)


def fit_covariance(
    observations: Observations, cell_m: float, seed: int = 0, groups: int = 24
) -> Covariance:
    """Fit the covariance by maximum composite likelihood (Varin et al. 2011) of drawn
    groups of the observations.

    Groups of neighbours determine noise and length, groups from all over the standard deviations.

    Args:
        observations: at least one. cell_m: cells in which they are gathered before. seed:
            draws the groups. groups: number of groups of `GROUP_SIZE` observations: half of
            them from all over, half of neighbours.
    """
    rng = np.random.default_rng(seed)
    points = gather(replace(observations, error=observations.error * observations.apart), cell_m)
    drawn = _draw_groups(points, rng, groups)
    losses = [_likelihood_loss(group) for group in drawn]
    share = min(1.0, len(points.value) / sum(len(group.value) for group in drawn))

    def loss(logs: Float) -> tuple[float, Float]:
        at = Covariance(*np.exp(logs))
        terms = [loss_of(at) for loss_of in losses]
        # Weak priors, without which few points, or points that do not move, have no optimum.
        offset = (logs - np.array(START_LOGS)) / PRIOR
        value, slope = sum(term[0] for term in terms), np.sum([term[1] for term in terms], axis=0)
        return float(share * value + 0.5 * offset @ offset), share * slope + offset / PRIOR

    best = optimize.minimize(
        loss, START_LOGS, jac=True, method="L-BFGS-B", bounds=BOUNDS, options={"maxiter": 25}
    )
    return Covariance(*map(float, np.exp(best.x)))._replace(
        delay_mm=float(np.median(observations.delay))
    )


def _likelihood_loss(points: Points) -> Callable[[Covariance], tuple[float, Float]]:
    """Return the negative logarithm of the likelihood of observations, up to a constant,
    with its slopes.

    Slopes (5,) are by the logarithms of the parameters (Rasmussen and Williams 2006, equation 5.9).
    """
    view_up, view_east = (np.outer(points.view[:, k], points.view[:, k]) for k in (0, 1))
    distance = cdist(points.place, points.place)
    air = points.air(distance)

    def loss(at: Covariance) -> tuple[float, Float]:
        scaled = np.sqrt(3) / at.length_m * distance
        decay = np.exp(-scaled)
        up, east = at.up_mm**2 * view_up, at.east_mm**2 * view_east
        correlation = (1 + scaled) * decay
        covariance = correlation * (up + east) + VAGUE_MM**2 * (view_up + view_east) + air
        covariance[np.diag_indices_from(covariance)] += noise_deviation(points.error, at) ** 2
        lower, failed = linalg.lapack.dpotrf(covariance, lower=1)
        if failed:
            return 1e10, np.zeros(5)
        solution = linalg.lapack.dpotrs(lower, points.value, lower=1)[0]
        lower_inverse = linalg.lapack.dpotri(lower, lower=1)[0]
        inverse = np.tril(lower_inverse) + np.tril(lower_inverse, -1).T
        weight = inverse - np.outer(solution, solution)
        diagonal, shorter = np.diag(weight), weight * (up + east) * scaled**2 * decay
        slopes = (
            2 * (weight * correlation * up).sum(),
            2 * (weight * correlation * east).sum(),
            shorter.sum(),
            2 * (diagonal * (at.noise_scale * points.error) ** 2).sum(),
            2 * diagonal.sum() * at.nugget_mm**2,
        )
        return float(0.5 * points.value @ solution + np.log(np.diag(lower)).sum()), 0.5 * np.array(
            slopes
        )

    return loss


def gather(observations: Observations, cell_m: float) -> Points:
    """Gather observations in cells, by track, at their mean place in the cell."""
    cell = np.floor(observations.east_north / cell_m).astype(np.int64)
    key = (cell[:, 0] * 2**31 + cell[:, 1]) * 64 + observations.track
    first, group, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )[1:]
    weight = 1 / observations.error**2
    total = np.bincount(group, weight, len(count))

    def mean(values: Float) -> Float:
        return np.asarray(np.bincount(group, weight * values, len(count)) / total, float)

    place = np.column_stack(
        [mean(observations.east_north[:, k] - observations.east_north[0, k]) for k in (0, 1)]
    )
    view = np.column_stack([mean(observations.los[:, 2]), mean(observations.los[:, 0])])
    shared = (mean(observations.delay), observations.delay_m[first], observations.track[first])
    return Points(
        place + observations.east_north[0],
        view,
        mean(observations.change),
        1 / np.sqrt(total),
        *shared,
    )


def _draw_groups(points: Points, rng: np.random.Generator, groups: int) -> list[Points]:
    count = len(points.value)
    if count <= GROUP_SIZE:
        return [points]
    rows = [rng.choice(count, GROUP_SIZE, replace=False) for _ in range(groups // 2)]
    rows += [
        np.argsort(((points.place - points.place[centre]) ** 2).sum(axis=1))[:GROUP_SIZE]
        for centre in rng.choice(count, groups - len(rows), replace=False)
    ]
    return [points.take(group) for group in rows]


def _outer(values: Float) -> Float:
    return np.asarray(values[..., :, None] * values[..., None, :], float)


def matern(distance: Float, length_m: float) -> Float:
    """Return Matern's correlation with smoothness 3/2."""
    scaled = np.sqrt(3) / length_m * distance
    return np.asarray((1 + scaled) * np.exp(-scaled), float)


def noise_deviation(error: Float, at: Covariance) -> Float:
    """Return the standard deviation of the noise, mm, by the observations' standard errors."""
    return np.asarray(np.hypot(at.noise_scale * error, at.nugget_mm), float)
