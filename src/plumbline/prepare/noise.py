"""What a building's series hold besides movement: which values and series to trust, and how they hang together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]
COLUMNS = 4
"""Parameters of a fit: amplitude, offset and the two of the annual term."""
CUT = 4.685
"""Values further off than this many standard deviations do not count at all (Tukey's biweight, 95 % efficient)."""
HELD = 0.86
"""Of normal values under these weights, the ratio of the fit's residual variance to what its standard error needs."""
FAR = 4.0
"""A series with this many times its neighbours' variance, as after an unwrapping error, does not stand for them."""
ROUNDS = 4
"""Of solving for the correlation of the noise."""
ODD = 3.0
MOST_CORRELATED, MOST_LOST = 0.9, 0.6


class Rows(NamedTuple):
    """Rows of G buildings: where each begins, and how many."""

    start: NDArray[np.intp]
    size: NDArray[np.intp]

    def total(self, values: Float) -> Float:
        """(G, ...) sums over the rows of each building."""
        return np.asarray(np.add.reduceat(values, self.start, axis=0))

    def spread(self, values: Any) -> Any:
        """(N, ...) each building's value in all of its rows."""
        return np.repeat(values, self.size, axis=0)


def rows_of(building: NDArray[np.intp]) -> Rows:
    """Of the ascending index `building` (N,)."""
    start = np.flatnonzero(np.r_[True, np.diff(building) > 0])
    return Rows(start, np.diff(np.r_[start, len(building)]))


def trusted(residual: Float, known: NDArray[np.bool_]) -> Float:
    """(N, T) weights by Tukey's biweight about the median absolute residual of each series; 0 where unknown."""
    size = np.abs(residual)
    count = known.sum(1)
    ordered = np.sort(np.where(known, size, np.inf), axis=1)
    middle = ordered[np.arange(len(size)), np.maximum(count - 1, 0) // 2]
    # Few values follow their fit closely: their residuals are smaller than their noise.
    scale = 1.4826 * middle * np.sqrt(count / np.maximum(count - COLUMNS, 1)) + 1e-9
    return np.asarray(known * np.maximum(1 - (size / (CUT * scale)[:, None]) ** 2, 0) ** 2)


def typical_variance(variance: Float, rows: Rows) -> Float:
    """(N,) geometric mean over the series of each one's building: a bad one hardly moves it."""
    return np.asarray(rows.spread(np.exp(rows.total(np.log(variance + 1e-12)) / rows.size)))


def effective_share(residual: Float, weight: Float, variance: Float, rows: Rows, caution: float = 0.0) -> Float:
    """(N,) effective over actual number of values, from the lag-one autocorrelation pooled over each building's rows.

    Each series speaks in units of its `variance` (N,), so that a bad one has one voice; one whose own correlation is
    higher by far (`ODD` standard errors, `sqrt((1 - rho^2) / T)` each) keeps that, less the same: after an unwrapping
    error, for one. Residuals of a fit vary and correlate less than the noise did. Each of its columns is slow, and
    takes with it one part in T of the noise's spectral density at frequency 0, which is (1 + rho) / (1 - rho) times
    that of white noise: a share `lost` of both the variance and the covariance. With `caution`, the correlation is
    taken to be that many of its standard errors higher.
    """
    weighted = weight * residual
    square = weighted * residual
    over = np.einsum("nt,nt->n", weighted[:, 1:], weighted[:, :-1])
    under = np.einsum("nt,nt->n", square[:, 1:], weight[:, :-1]) + np.einsum("nt,nt->n", square[:, :-1], weight[:, 1:])
    scale = variance + 1e-12
    pooled = rows.spread(rows.total(over / scale) / np.maximum(rows.total(under / scale) / 2, 1e-9))
    epochs = rows.spread(np.maximum(rows.total(weight.sum(1)) / rows.size, 8))
    odd = over / np.maximum(under / 2, 1e-9) - ODD * np.sqrt(np.maximum(1 - pooled**2, 0) / epochs)
    seen = np.maximum(pooled, odd)
    rho, lost = seen, np.zeros_like(seen)
    for _ in range(ROUNDS):
        rho = np.clip(rho, 0, MOST_CORRELATED)
        lost = np.minimum(COLUMNS / epochs * (1 + rho) / (1 - rho), MOST_LOST)
        rho = seen + lost * (1 - seen)
    rho = np.clip(rho, 0, MOST_CORRELATED)
    rho = np.minimum(rho + caution * np.sqrt((1 - rho**2) / epochs), MOST_CORRELATED)
    return np.asarray((1 - rho) / (1 + rho) * (1 - lost) / (1 - COLUMNS / epochs), float)
