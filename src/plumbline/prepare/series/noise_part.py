"""What a building's series hold besides movement: which values and series to trust, and how they hang together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.prepare.series.noise import LAGS, Kinds

Float = NDArray[np.floating[Any]]
COLUMNS = 4
"""Parameters of a fit: amplitude, offset and the two of the annual term."""
CUT = 4.685
"""Values further off than this many standard deviations do not count at all (Tukey's biweight, 95 % efficient)."""
HELD = 0.86
"""Of normal values under these weights, the ratio of the fit's residual variance to what its standard error needs."""
FAR = 4.0
"""A series with this many times its neighbours' variance, as after an unwrapping error, does not stand for them."""
ODD = 3.0


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


def effective_share(residual: Float, weight: Float, variance: Float, rows: Rows, kinds: Kinds) -> Float:
    """(N,) effective over actual number of values, from the autocorrelation pooled over each building's rows.

    Each series speaks in units of its `variance` (N,), so that a bad one has one voice; one whose own correlation is
    higher by far (`ODD` standard errors, each `sqrt((1 + r^2) / (1 - r^2) / pairs)`: Bartlett 1946) keeps that, and has
    none: after an unwrapping error, for one. What the correlations mean for a trend is for `kinds` to say.
    """
    over, under, pairs = _products(residual, weight)
    over, under = over / (variance + 1e-12), under / (variance + 1e-12)
    own, shared = over / np.maximum(under, 1e-9), _pooled(over, under, rows)
    first = np.clip(shared[0], 0, 0.9) ** 2
    odd = (own - shared > ODD * np.sqrt((1 + first) / (1 - first) / np.maximum(pairs, 1))).any(0)
    shared = _pooled(over * ~odd, under * ~odd, rows)
    epochs = rows.spread(np.maximum(rows.total(weight.sum(1)) / rows.size, 8))
    series = np.where(odd, 1, rows.spread(rows.total((~odd).astype(float))))
    return 1 / kinds.line_variance(np.where(odd, own, shared), epochs * np.maximum(series, 1))


def _products(residual: Float, weight: Float) -> Float:
    """(3, lags, N) sums of the products of residuals `LAGS` epochs apart, of the squares that belong to them, and of
    the weights: how many pairs they are."""
    weighted = weight * residual
    square = weighted * residual
    found = np.zeros((3, len(LAGS), len(residual)))
    for row, lag in enumerate(lag for lag in LAGS if lag < residual.shape[1]):
        early, late = np.s_[:, :-lag], np.s_[:, lag:]
        found[0, row] = np.einsum("nt,nt->n", weighted[late], weighted[early])
        squares = np.einsum("nt,nt->n", square[late], weight[early]), np.einsum("nt,nt->n", square[early], weight[late])
        found[1, row] = sum(squares) / 2
        found[2, row] = np.einsum("nt,nt->n", weight[late], weight[early])
    return found


def _pooled(over: Float, under: Float, rows: Rows) -> Float:
    """(lags, N) ratio of the sums over each building's rows."""
    return np.asarray(rows.spread(rows.total(over.T) / np.maximum(rows.total(under.T), 1e-9)).T)
