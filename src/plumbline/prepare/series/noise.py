"""Describe the noise of series: trusted values and series, the kind of noise, and its
effect on errors.

The noise of a displacement history is correlated in time: in part over weeks, in part over years,
like that of other geodetic series (Williams 2003, The effect of coloured noise on the uncertainties
of rates from geodetic time series). A fit absorbs the slow part of it. So its kind is estimated by
comparing the correlations of residuals with those which each kind leaves after the same fit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Float

LAGS = (1, 2, 3, 5, 8, 13, 21)
"""Epochs after which residuals are compared: a long memory shows in the later ones."""
RHOS = (0.2, 0.4, 0.6, 0.75, 0.85, 0.92, 0.96)
"""Correlations of autoregressions from one usual epoch to the next."""
EXPONENTS = (0.7, 1.0, 1.3, 1.6)
"""Exponents of power laws in frequency: 1 is flicker noise, 2 a random walk."""
COUNTED_SHARE = 0.6
"""Share of the values that counts as independent: correlated ones show less of their
correlation."""
MIN_RESIDUAL_SHARE = 1e-6
"""Smallest share of the variance that a fit leaves: with as many columns as epochs it leaves
nothing, and the kind of the noise cannot be estimated."""


class Kinds(NamedTuple):
    """Kinds of noise, each on any scale; the first is white."""

    moments: Float
    """(Q, 1 + lags) mean square of residuals, and mean products of those that are `LAGS`
    epochs apart."""
    line: Float
    """(Q,) variance of the line's amplitude."""

    def line_variance(self, correlation: Float, values: Float) -> Float:
        """Return the variance (N,) of the line's amplitude, relative to white noise with
        the same residuals.

        The model of the noise is white plus one other kind. For each kind least squares estimates
        its share. The kinds are weighted by their likelihood, and white noise alone gains by its
        missing parameter (Schwarz 1978, Estimating the dimension of a model). The variances are
        averaged geometrically: some are a hundred times those of others, and a small probability of
        them would outweigh all else.

        Args:
            correlation: (lags, N) of residuals that are `LAGS` epochs apart.
            values: (N,) number of values.
        """
        white, coloured = self.moments[0], self.moments[1:]
        if white[0] < MIN_RESIDUAL_SHARE:
            return np.ones(len(values))
        expected = white[1:] / white[0]
        excess, kind_excess = correlation.T - expected, coloured[:, 1:] - coloured[:, :1] * expected
        along, size = excess @ kind_excess.T, (kind_excess**2).sum(1)
        share = np.clip(along / size, 0, 1 / coloured[:, 0])
        white_variance = self.line[0] / white[0]
        variance = share * self.line[1:] + (1 - share * coloured[:, 0]) * white_variance
        # Part of the sum of squared excess correlations that each kind explains; white noise alone
        # explains nothing.
        explained = share * (2 * along - share * size)
        best = np.maximum(explained.max(1, keepdims=True), 0)
        effective_values = COUNTED_SHARE * values[:, None]
        trust = np.exp(effective_values / 2 * (explained - best))
        white_trust = np.exp(-effective_values / 2 * best) * np.sqrt(effective_values)
        logarithm = (trust * np.log(variance / white_variance)).sum(1) / (
            trust.sum(1) + white_trust[:, 0]
        )
        return np.asarray(np.exp(logarithm), float)


def kinds_of(columns: Float, when: Float) -> Kinds:
    """Return the kinds of noise after a fit of `columns` (P, T), the line last, at epochs
    `when` (T,)."""
    return _kinds(columns.tobytes(), when.tobytes(), len(columns))


@lru_cache(maxsize=8)
def _kinds(columns: bytes, when: bytes, count: int) -> Kinds:
    """Compute the table of a set of epochs; many tiles share it."""
    design, time = np.frombuffer(columns).reshape(count, -1), np.frombuffer(when)
    step = np.median(np.diff(time)) if len(time) > 1 else 1.0
    epoch = np.rint((time - time[0]) / max(float(step), 1e-9)).astype(int)
    lag = np.abs(epoch[:, None] - epoch[None, :])
    basis = np.linalg.svd(design, full_matrices=False)[2]
    weight = np.linalg.pinv(design.T)[-1]
    moments, line = [], []
    for covariance in (
        np.eye(len(time)),
        *(rho**lag for rho in RHOS),
        *(power_law(epoch, e) for e in EXPONENTS),
    ):
        projected = basis @ covariance
        # (I - P) C (I - P), with P = basis' basis the projection on the columns.
        residual_covariance = (
            covariance
            - basis.T @ projected
            - projected.T @ basis
            + basis.T @ (projected @ basis.T) @ basis
        )
        moments.append(
            [np.diagonal(residual_covariance, k).sum() / max(len(time) - k, 1) for k in (0, *LAGS)]
        )
        line.append(weight @ covariance @ weight)
    return Kinds(np.array(moments), np.array(line))


def power_law(at: NDArray[np.intp], exponent: float) -> Float:
    """Return the covariance (T, T) at epochs `at` (T,) of a regular grid: fractionally
    integrated noise (Hosking 1981).

    The series began as long before the first epoch as the last is after it; the scale is that of
    its innovations.
    """
    length, order = int(at[-1]) + 1, exponent / 2
    lag = np.arange(1, 2 * length)
    taps = np.r_[1.0, np.cumprod((lag - 1 + order) / lag)]
    # One row for each epoch, not for each place of the grid: epochs may be sparse.
    before = length + at[:, None] - np.arange(2 * length)
    through = np.where(before >= 0, taps[np.maximum(before, 0)], 0)
    return np.asarray(through @ through.T, float)


COLUMNS = 4
"""Parameters of a fit: amplitude, offset and the two of the annual term."""
CUT = 4.685
"""Residual, in standard deviations, from which on a value has no weight (Tukey's biweight, 95 %
efficient)."""
RESIDUAL_RATIO = 0.86
"""Ratio, for normal values under these weights, of the fit's residual variance to the one that its
standard error needs."""
MAX_NOISE_RATIO = 4.0
"""Largest ratio of a series' variance to that of its neighbours, with which it counts in their
mean: it is larger after an unwrapping error."""
ODD_ERRORS = 3.0
"""Smallest excess of a series' correlation over its building's, in standard errors, with which it
keeps its own."""


class Rows(NamedTuple):
    """Rows of G buildings: where each begins, and how many."""

    start: NDArray[np.intp]
    size: NDArray[np.intp]

    def total(self, values: Float) -> Float:
        """Return sums (..., G) over the rows of each building, of values (..., N)."""
        return np.asarray(np.add.reduceat(values, self.start, axis=-1))

    def spread(self, values: Any) -> Any:
        """Return (..., N) each building's value (..., G) in all of its rows."""
        return np.repeat(values, self.size, axis=-1)


def rows_of(building: NDArray[np.intp]) -> Rows:
    """Return the rows of the ascending index `building` (N,)."""
    start = np.flatnonzero(np.r_[True, np.diff(building) > 0])
    return Rows(start, np.diff(np.r_[start, len(building)]))


def trusted(residual: Float, is_finite: NDArray[np.bool_]) -> Float:
    """Return weights (N, T) by Tukey's biweight about the median absolute residual of each
    series; 0 if unknown."""
    square, epochs = np.square(residual), residual.shape[1]
    # As positive numbers their bits have the same order, and integers need no search for NaN.
    bits = square.view(np.int64)
    if is_finite.size and is_finite.all():  # one place for all: no need to sort
        count, place = np.array(epochs), (epochs - 1) // 2
        middle = np.partition(bits, place, axis=1)[:, place].view(float)
    else:
        square[~is_finite] = np.inf
        count = is_finite.sum(1)
        place = np.maximum(count - 1, 0) // 2
        middle = np.sort(bits, axis=1)[np.arange(len(bits)), place].view(float)
    # A fit follows few values closely: their residuals are smaller than their noise.
    scale = 1.4826 * np.sqrt(middle * count / np.maximum(count - COLUMNS, 1)) + 1e-9
    square /= np.square(CUT * scale)[:, None]
    weight = np.maximum(np.subtract(1, square, out=square), 0, out=square)
    return np.square(weight, out=weight)


def typical_variance(variance: Float, rows: Rows) -> Float:
    """Return the geometric mean (N,) over the series of the same building; a bad series
    hardly changes it."""
    return np.asarray(rows.spread(np.exp(rows.total(np.log(variance + 1e-12)) / rows.size)))


def effective_share(
    residual: Float, weight: Float, variance: Float, rows: Rows, kinds: Kinds
) -> Float:
    """Return effective over actual number of values (N,), from the autocorrelation pooled
    over each building's rows.

    Each series is scaled by its `variance` (N,), so that a bad one counts once. One with a much
    higher correlation (`ODD_ERRORS` standard errors, each `sqrt((1 + r^2) / (1 - r^2) / pairs)`:
    Bartlett 1946), as after an unwrapping error, keeps its correlation and does not count in the
    pool. `kinds` gives the effect of correlations on a trend.
    """
    over, under, pairs = _sum_products(residual, weight)
    over, under = over / (variance + 1e-12), under / (variance + 1e-12)
    correlation, shared = over / np.maximum(under, 1e-9), rows.spread(_pool(over, under, rows))
    first = np.clip(shared[0], 0, 0.9) ** 2
    is_odd = (
        correlation - shared
        > ODD_ERRORS * np.sqrt((1 + first) / (1 - first) / np.maximum(pairs, 1))
    ).any(0)
    epochs = np.maximum(rows.total(weight.sum(1)) / rows.size, 8)
    series = np.maximum(rows.total((~is_odd).astype(float)), 1)
    pooled = _pool(over * ~is_odd, under * ~is_odd, rows)
    line_variance = rows.spread(kinds.line_variance(pooled, epochs * series))
    line_variance[is_odd] = kinds.line_variance(correlation[:, is_odd], rows.spread(epochs)[is_odd])
    return np.asarray(1 / line_variance)


def _sum_products(residual: Float, weight: Float) -> Float:
    """Return sums (3, lags, N), `LAGS` epochs apart: products of residuals, their squares,
    and weights (pairs)."""
    weighted = weight * residual
    square = weighted * residual
    sums = np.zeros((3, len(LAGS), len(residual)))
    for row, lag in enumerate(lag for lag in LAGS if lag < residual.shape[1]):
        early, late = np.s_[:, :-lag], np.s_[:, lag:]
        sums[0, row] = np.vecdot(weighted[late], weighted[early])
        squares = (
            np.vecdot(square[late], weight[early]),
            np.vecdot(square[early], weight[late]),
        )
        sums[1, row] = sum(squares) / 2
        sums[2, row] = np.vecdot(weight[late], weight[early])
    return sums


def _pool(over: Float, under: Float, rows: Rows) -> Float:
    """Return the ratio (lags, G) of the sums over each building's rows."""
    return np.asarray(rows.total(over) / np.maximum(rows.total(under), 1e-9))
