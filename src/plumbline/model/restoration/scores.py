"""Score a restored field against the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.special import erf

Float = NDArray[np.floating[Any]]
WINDOW = 7
"""Cells of a side of the window of the structural similarity."""


def normal_crps(error: Float, deviation: Float) -> Float:
    """Return the continuous ranked probability score of a normal distribution (Gneiting and Raftery 2007, eq. 21)."""
    z = error / deviation
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return np.asarray(deviation * (z * erf(z / np.sqrt(2)) + 2 * density - 1 / np.sqrt(np.pi)), float)


def rmse(field: Float, true: Float) -> float:
    """Return the root mean square error, in the unit of the fields."""
    return float(np.sqrt(((field - true) ** 2).mean()))


def psnr(field: Float, true: Float) -> float:
    """Return the peak signal-to-noise ratio, dB: the range of the truth over the root mean square error."""
    return float(20 * np.log10(max(float(np.ptp(true)), 1e-6) / max(rmse(field, true), 1e-6)))


def ssim(field: Float, true: Float) -> float:
    """Return the mean structural similarity (Wang et al. 2004, equation 13) in 7 x 7 cells, for the truth's range."""
    span = max(float(np.ptp(true)), 1e-6)
    first, second = (0.01 * span) ** 2, (0.03 * span) ** 2
    x, y = field.astype(float), true.astype(float)

    def mean(values: Float) -> Float:
        return np.asarray(ndimage.uniform_filter(values, WINDOW), float)

    mean_x, mean_y = mean(x), mean(y)
    size = WINDOW**2 / (WINDOW**2 - 1)
    var_x, var_y = size * (mean(x * x) - mean_x**2), size * (mean(y * y) - mean_y**2)
    both = size * (mean(x * y) - mean_x * mean_y)
    share = (2 * mean_x * mean_y + first) * (2 * both + second)
    share = share / ((mean_x**2 + mean_y**2 + first) * (var_x + var_y + second))
    edge = WINDOW // 2
    return float(share[edge:-edge, edge:-edge].mean())


def gradient(field: Float, cell_m: float) -> Float:
    """Return the steepest slope, mm/m; NaN spreads to neighbours."""
    along, across = np.gradient(field, cell_m)
    return np.asarray(np.hypot(along, across), float)


def gradient_error(field: Float, true: Float, cell_m: float) -> float:
    """Return the mean absolute error of the steepest slope, mm/m."""
    return float(np.abs(gradient(field, cell_m) - gradient(true, cell_m)).mean())
