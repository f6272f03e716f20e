"""Shape of sampled columns: outliers, correlations, histograms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plumbline.prepare.audit.summary import TABLES

Values = NDArray[np.float64]
BINS = 24
_MAD_TO_SD = 1.4826
_MIDDLE_TO_SD = 2.563


def quantiles(values: Values, at: ArrayLike) -> Values:
    """Quantiles of ascending values, one at least, with straight lines between them (as `numpy.quantile` has them)."""
    place = np.asarray(at, np.float64) * (len(values) - 1)
    below = np.floor(place).astype(np.intp)
    above = np.minimum(below + 1, len(values) - 1)
    return np.asarray(values[below] + (place - below) * (values[above] - values[below]), np.float64)


def steps(values: Values, at: ArrayLike) -> Values:
    """Quantiles of ascending values, one at least, that are among them: the lowest that have this share up to them."""
    # A share that is a whole number of values must stay one, whatever its last bit.
    place = np.ceil(np.asarray(at, np.float64) * len(values) - 1e-9).astype(np.intp) - 1
    return np.asarray(values[np.maximum(place, 0)], np.float64)


def outlier_share(values: Values, z: float) -> float:
    """Share of ascending values further than `z` robust standard deviations from the median.

    The deviation is 1.4826 times the median absolute one (Iglewicz and Hoaglin 1993, How to Detect and Handle
    Outliers), or the range of the middle 80 % over 2.563 if that is more: both estimate the standard deviation of
    normal values, and the second does not vanish where half of the values are equal. Outliers that are more than a
    tenth of the values on one side hide themselves. 0 where neither varies.
    """
    if not len(values):
        return 0.0
    low, median, high = quantiles(values, [0.1, 0.5, 0.9])
    off = np.abs(values - median)
    scale = max(_MAD_TO_SD * float(np.median(off)), float(high - low) / _MIDDLE_TO_SD)
    return float((off > z * scale).mean()) if scale else 0.0


def correlations(table: str, values: NDArray[Any]) -> list[tuple[str, str, float]]:
    """Pearson correlation of each pair of columns that vary, over the rows (N, C) without a non-finite value."""
    rows = np.asarray(values, np.float64)
    rows = rows[np.isfinite(rows).all(1)]
    if len(rows) < 3:
        return []
    centred = rows - rows.mean(0)
    length = np.sqrt((centred**2).sum(0))
    vary = np.flatnonzero(length > 1e-9 * np.sqrt(len(rows)) * np.maximum(np.abs(rows).max(0), 1e-12))
    unit = centred[:, vary] / length[vary]
    matrix = unit.T @ unit
    named = [f"{table}.{TABLES[table][j].name}" for j in vary]
    return [
        (named[i], named[j], float(np.clip(matrix[i, j], -1, 1)))
        for i in range(len(named))
        for j in range(i + 1, len(named))
    ]


def histogram_edges(values: Values) -> Values:
    """(BINS + 1,) even edges over the middle 99 % of the ascending values."""
    if not len(values):
        return np.linspace(0, 1, BINS + 1)
    low, high = quantiles(values, [0.005, 0.995])
    if not high > low:
        low, high = low - 0.5 * max(1.0, abs(low)), high + 0.5 * max(1.0, abs(high))
    return np.asarray(np.linspace(low, high, BINS + 1), np.float64)


def histogram(values: Values, edges: Values) -> list[int]:
    """Counts within edges; what lies outside is in the first and the last bin."""
    return [int(n) for n in np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0]]
