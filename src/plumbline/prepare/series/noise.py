"""What kinds of noise leave after a fit, and how uncertain they make it.

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
        """(N,) variance of the line's amplitude, in that which white noise with the same residuals would make it.

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
    """Kinds of noise after a fit of `columns` (P, T), the last of which is the line, at epochs `when` (T,)."""
    return _kinds(columns.tobytes(), when.tobytes(), len(columns))


@lru_cache(maxsize=8)
def _kinds(columns: bytes, when: bytes, count: int) -> Kinds:
    """A table for each set of epochs: many tiles share it."""
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
    """(T, T) covariance at the epochs `at` (T,) of a regular grid: white noise, fractionally integrated (Hosking 1981).

    Of a series that began as long before the first epoch as the last is after it, on the scale of its innovations.
    """
    length, order = int(at[-1]) + 1, exponent / 2
    lag = np.arange(1, 2 * length)
    taps = np.r_[1.0, np.cumprod((lag - 1 + order) / lag)]
    # A row for each epoch there is: a few of them may lie far apart.
    before = length + at[:, None] - np.arange(2 * length)
    through = np.where(before >= 0, taps[np.maximum(before, 0)], 0)
    return np.asarray(through @ through.T, float)
