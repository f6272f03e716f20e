"""Compare a field with the truth: error, structure, slopes, and whether its uncertainty is honest.

Arrays are (rows, columns) of cells, NaN where a field says nothing; those cells count in no figure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_erosion, uniform_filter
from scipy.special import ndtr

Array = NDArray[np.float64]
WINDOW = 7
"""Cells of a side of the square in which SSIM is taken."""
LEAST_RANGE_MM = 1.0
"""Where the truth of a component varies by less, it has no PSNR and no SSIM."""


class Estimate(NamedTuple):
    """One component of a field, mm."""

    mean: Array
    std: Array
    low: Array
    """Lower end of the 90 % interval."""
    high: Array


class Scores(NamedTuple):
    """NaN where there is nothing to take a figure of."""

    rmse: float
    """mm"""
    psnr: float
    """dB, against the range of the truth in the scene."""
    ssim: float
    gradient: float
    """Mean absolute error of the slope's size, mm/m."""
    crps: float
    """mm, as of a normal distribution."""
    coverage: float
    """Share of the truth inside the 90 % interval."""


def score(estimate: Estimate, truth: Array, cell_m: float) -> Scores:
    """Compare an estimate with the truth (rows, columns), mm."""
    known = np.isfinite(estimate.mean)
    if not known.any():
        return Scores(*[float("nan")] * len(Scores._fields))
    error, extent = (estimate.mean - truth)[known], float(np.ptp(truth))
    rmse = float(np.sqrt((error**2).mean()))
    varies = extent >= LEAST_RANGE_MM
    slopes = np.abs(slope(estimate.mean, cell_m) - slope(truth, cell_m))
    inside = (estimate.low <= truth) & (truth <= estimate.high)
    return Scores(
        rmse,
        float(20 * np.log10(extent / rmse)) if varies and rmse > 0 else float("nan"),
        ssim(estimate.mean, truth, extent) if varies else float("nan"),
        _mean(slopes),
        _mean(crps(estimate.mean, estimate.std, truth)),
        float(inside[known].mean()),
    )


def mean_of(several: list[Scores]) -> Scores:
    """Average each figure over those that have it."""
    return Scores(*(_mean(np.array(values)) for values in zip(*several, strict=True)))


def ssim(field: Array, truth: Array, extent: float) -> float:
    """Return the structural similarity (Wang, Bovik, Sheikh and Simoncelli 2004), mean over the windows without NaN.

    Uniform windows, sample variances, K1 0.01 and K2 0.03: as `skimage.metrics.structural_similarity` by default.
    """
    whole = binary_erosion(np.isfinite(field), np.ones((WINDOW, WINDOW)), border_value=0)
    if not whole.any():
        return float("nan")
    x, y = np.where(np.isfinite(field), field, 0.0), np.asarray(truth, float)
    x, y = x - y.mean(), y - y.mean()  # small numbers; what is taken off both is put back
    shift = float(np.asarray(truth, float).mean())
    many = WINDOW**2 / (WINDOW**2 - 1)
    mean_x, mean_y = uniform_filter(x, WINDOW), uniform_filter(y, WINDOW)
    var_x = many * (uniform_filter(x * x, WINDOW) - mean_x**2)
    var_y = many * (uniform_filter(y * y, WINDOW) - mean_y**2)
    both = many * (uniform_filter(x * y, WINDOW) - mean_x * mean_y)
    c1, c2 = (0.01 * extent) ** 2, (0.03 * extent) ** 2
    mean_x, mean_y = mean_x + shift, mean_y + shift
    similar = (2 * mean_x * mean_y + c1) * (2 * both + c2)
    similar /= (mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2)
    return float(similar[whole].mean())


def slope(field: Array, cell_m: float) -> Array:
    """Return the size of the gradient by central differences, mm/m; NaN at the border and beside NaN."""
    result = np.full(field.shape, np.nan)
    down = (field[2:, 1:-1] - field[:-2, 1:-1]) / (2 * cell_m)
    right = (field[1:-1, 2:] - field[1:-1, :-2]) / (2 * cell_m)
    result[1:-1, 1:-1] = np.hypot(down, right)
    return result


def crps(mean: Array, std: Array, truth: Array) -> Array:
    """Return the continuous ranked probability score of normal distributions (Gneiting and Raftery 2007), mm."""
    std = np.maximum(std, 1e-9)
    z = (truth - mean) / std
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi)))


def _mean(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
