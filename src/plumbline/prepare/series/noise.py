"""Describe the noise of series: trusted values and series, the kind of noise, and its effect on errors.

The noise of a displacement history hangs together in time: in part over weeks, in part over years, as that of other
geodetic series does (Williams 2003, The effect of coloured noise on the uncertainties of rates from geodetic time
series). A fit takes the slow part of it along. So its kind is told by comparing the correlations of residuals with
those which each kind leaves after the same fit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]
LAGS = (1, 2, 3, 5, 8, 13, 21)
"""Epochs after which residuals are compared: a long memory shows in the later ones."""
RHOS = (0.2, 0.4, 0.6, 0.75, 0.85, 0.92, 0.96)
"""Of autoregressions, from one usual epoch to the next."""
EXPONENTS = (0.7, 1.0, 1.3, 1.6)
"""Of power laws in frequency: 1 is flicker noise, 2 a random walk."""


TOLD = 0.6
"""Values that hang together tell less of their correlation than so many independent ones."""

LEAST_LEFT = 1e-6
"""Of the variance: with as many columns as epochs a fit leaves nothing, and nothing can be told."""


class Kinds(NamedTuple):
    """Kinds of noise, each on any scale; the first is white."""

    moments: Float
    """(Q, 1 + lags) mean square of residuals, and mean products of those that are `LAGS` epochs apart."""
    line: Float
    """(Q,) variance of the line's amplitude."""

    def line_variance(self, correlation: Float, values: Float) -> Float:
        """Return the variance (N,) of the line's amplitude, relative to white noise with the same residuals.

        Noise is taken as white and one other kind together. For each kind least squares finds how much of it there is;
        the kinds count by how well they then agree, and white noise alone by so much more as it has a parameter less
        (Schwarz 1978, Estimating the dimension of a model). Of their variances the geometric mean is taken: some are
        a hundred times those of others, and a small chance of them would outweigh all else.

        Args:
            correlation: (lags, N) of residuals that are `LAGS` epochs apart.
            values: (N,) of how many values.
        """
        white, others = self.moments[0], self.moments[1:]
        if white[0] < LEAST_LEFT:
            return np.ones(len(values))
        expected = white[1:] / white[0]
        seen, beyond = correlation.T - expected, others[:, 1:] - others[:, :1] * expected
        along, size = seen @ beyond.T, (beyond**2).sum(1)
        share = np.clip(along / size, 0, 1 / others[:, 0])
        alone = self.line[0] / white[0]
        variance = share * self.line[1:] + (1 - share * others[:, 0]) * alone
        # What each kind explains of the sum of squares of what was seen; white noise alone explains nothing.
        explained = share * (2 * along - share * size)
        most = np.maximum(explained.max(1, keepdims=True), 0)
        told = TOLD * values[:, None]
        trust = np.exp(told / 2 * (explained - most))
        by_itself = np.exp(-told / 2 * most) * np.sqrt(told)
        logarithm = (trust * np.log(variance / alone)).sum(1) / (trust.sum(1) + by_itself[:, 0])
        return np.asarray(np.exp(logarithm), float)


def kinds_of(columns: Float, when: Float) -> Kinds:
    """Return the kinds of noise after a fit of `columns` (P, T), the line last, at epochs `when` (T,)."""
    return _kinds(columns.tobytes(), when.tobytes(), len(columns))


@lru_cache(maxsize=8)
def _kinds(columns: bytes, when: bytes, count: int) -> Kinds:
    """Compute the table of a set of epochs; many tiles share it."""
    design, time = np.frombuffer(columns).reshape(count, -1), np.frombuffer(when)
    step = np.median(np.diff(time)) if len(time) > 1 else 1.0
    at = np.rint((time - time[0]) / max(float(step), 1e-9)).astype(int)
    lag = np.abs(at[:, None] - at[None, :])
    basis = np.linalg.svd(design, full_matrices=False)[2]
    weight = np.linalg.pinv(design.T)[-1]
    moments, line = [], []
    for covariance in (np.eye(len(time)), *(rho**lag for rho in RHOS), *(power_law(at, e) for e in EXPONENTS)):
        on = basis @ covariance
        left = covariance - basis.T @ on - on.T @ basis + basis.T @ (on @ basis.T) @ basis
        moments.append([np.diagonal(left, k).sum() / max(len(time) - k, 1) for k in (0, *LAGS)])
        line.append(weight @ covariance @ weight)
    return Kinds(np.array(moments), np.array(line))


def power_law(at: NDArray[np.intp], exponent: float) -> Float:
    """Return the covariance (T, T) at epochs `at` (T,) of a regular grid: fractionally integrated noise (Hosking 1981).

    Of a series that began as long before the first epoch as the last is after it, on the scale of its innovations.
    """
    length, order = int(at[-1]) + 1, exponent / 2
    lag = np.arange(1, 2 * length)
    taps = np.r_[1.0, np.cumprod((lag - 1 + order) / lag)]
    # A row for each epoch there is: a few of them may lie far apart.
    before = length + at[:, None] - np.arange(2 * length)
    through = np.where(before >= 0, taps[np.maximum(before, 0)], 0)
    return np.asarray(through @ through.T, float)


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
        """Return sums (G, ...) over the rows of each building."""
        return np.asarray(np.add.reduceat(values, self.start, axis=0))

    def spread(self, values: Any) -> Any:
        """Return (N, ...) each building's value in all of its rows."""
        return np.repeat(values, self.size, axis=0)


def rows_of(building: NDArray[np.intp]) -> Rows:
    """Return the rows of the ascending index `building` (N,)."""
    start = np.flatnonzero(np.r_[True, np.diff(building) > 0])
    return Rows(start, np.diff(np.r_[start, len(building)]))


def trusted(residual: Float, known: NDArray[np.bool_]) -> Float:
    """Return weights (N, T) by Tukey's biweight about the median absolute residual of each series; 0 if unknown."""
    size = np.abs(residual)
    count = known.sum(1)
    if known.size and known.all():  # one place for all: a quarter of the time that sorting takes
        middle = np.partition(size, (size.shape[1] - 1) // 2, axis=1)[:, (size.shape[1] - 1) // 2]
    else:
        ordered = np.sort(np.where(known, size, np.inf), axis=1)
        middle = ordered[np.arange(len(size)), np.maximum(count - 1, 0) // 2]
    # Few values follow their fit closely: their residuals are smaller than their noise.
    scale = 1.4826 * middle * np.sqrt(count / np.maximum(count - COLUMNS, 1)) + 1e-9
    size /= (CUT * scale)[:, None]
    weight = np.maximum(np.subtract(1, np.square(size, out=size), out=size), 0, out=size)
    return np.asarray(np.multiply(np.square(weight, out=weight), known, out=weight))


def typical_variance(variance: Float, rows: Rows) -> Float:
    """Return the geometric mean (N,) over the series of the same building; a bad series hardly changes it."""
    return np.asarray(rows.spread(np.exp(rows.total(np.log(variance + 1e-12)) / rows.size)))


def effective_share(residual: Float, weight: Float, variance: Float, rows: Rows, kinds: Kinds) -> Float:
    """Return effective over actual number of values (N,), from the autocorrelation pooled over each building's rows.

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
    """Return sums (3, lags, N), `LAGS` epochs apart: products of residuals, their squares, and weights (pairs)."""
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
    """Return the ratio (lags, N) of the sums over each building's rows."""
    return np.asarray(rows.spread(rows.total(over.T) / np.maximum(rows.total(under.T), 1e-9)).T)
