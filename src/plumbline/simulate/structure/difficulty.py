"""Rate how hard a building's label is to find: its strain against the noise of its points.

From the fit of a straight line over the observation, a point's vertical change has the variance `12 sigma^2 / (T_eff
los_up^2)` with `T_eff = T (1 - rho) / (1 + rho)` epochs that count, for first-order autoregressive noise; `noise.Law`
has it for noise with a long memory. A quarter of n such points against the other three quarters tells a quadrant's drop
with the variance `(4 + 4/3) / n` of that; points that differ count by their precision. The strain's drop is that of an
angular distortion of twice the strain (`plumbline.core.strain`, without horizontal strain) over half a side: strain
times side. A point that is not where the product says shows the drop of another place: that distortion times the
position error, once a point.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE

Array = NDArray[np.float64]
EASY_FROM, MEDIUM_FROM = 20.0, 8.0
"""Signal to noise: the noise alone leaves a twentieth of the strain unknown, an eighth."""
VISIBLE_PERMILLE = CATEGORY_BOUNDS_PERMILLE[0]
"""Strain of a damage that is just visible: a building with less is as hard as that damage would be on it."""


def point_precision(sigma: Array, los_up: Array, line_variance: Array | float) -> Array:
    """Return the inverse variance (N,) of points' vertical change over the observation, 1/mm2.

    Args:
        sigma: (N,) standard deviation of one epoch, mm.
        los_up: (N,) vertical component of the line of sight.
        line_variance: of a straight line's change, in that of one epoch; see `noise.line_variance`.
    """
    return np.asarray(los_up**2 / (line_variance * sigma**2), float)


class Evidence(NamedTuple):
    """Evidence of change from the points of B buildings: sums over points, so that tracks and parts add up."""

    precision: Array
    """(B,) of `point_precision`, 1/mm2."""
    points: Array
    """(B,) how many."""
    astray: Array
    """(B,) of the squares of position errors along one axis, m2."""

    def plus(self, other: Evidence) -> Evidence:
        """Return the sum of both."""
        return Evidence(*(mine + its for mine, its in zip(self, other, strict=True)))


def gather_evidence(building: NDArray[np.intp], precision: Array, error: Array, buildings: int) -> Evidence:
    """Gather the evidence of points on buildings (N,), with precision (N,) and position errors (N, 2) in m."""
    squares = (error**2).mean(axis=1)
    sums = [np.bincount(building, weight, buildings) for weight in (precision, np.ones(len(error)), squares)]
    return Evidence(*(np.asarray(part, float) for part in sums))


def no_evidence(buildings: int) -> Evidence:
    """Return the evidence without points."""
    return Evidence(np.zeros(buildings), np.zeros(buildings), np.zeros(buildings))


def signal_to_noise(severity_permille: Array, side: Array, evidence: Evidence) -> Array:
    """Return (B,) the drop that causes the strain over the standard error of a quadrant's drop; 0 without points.

    Args:
        severity_permille: (B,) strain.
        side: (B, 2) sides, m.
        evidence: of the buildings' points.
    """
    strain = np.maximum(severity_permille, VISIBLE_PERMILLE)
    drop = strain * np.sqrt(side.prod(axis=1))
    seen = evidence.points > 0
    count, precision = np.where(seen, evidence.points, 1), np.where(seen, evidence.precision, 1)
    misplaced = (2 * strain) ** 2 * evidence.astray / count
    variance = (4 + 4 / 3) * (1 / precision + misplaced / count)
    return np.asarray(seen * drop / np.sqrt(variance), float)


def difficulty(severity_permille: Array, side: Array, evidence: Evidence) -> NDArray[np.intp]:
    """Return the index (B,) into `strain.DIFFICULTIES`; arguments as `signal_to_noise`.

    More points, less noise or more strain never make a building harder.
    """
    found = signal_to_noise(severity_permille, side, evidence)
    return np.select([found >= EASY_FROM, found >= MEDIUM_FROM], [0, 1], default=2)
