"""Least squares that outliers cannot pull: thousands of small systems at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]
FREEDOM = 4.0
"""Degrees of freedom of the assumed Student t distribution of the errors (Lange, Little and Taylor 1989). The first
`START` iterations take 1 and the stated errors alone: otherwise a corner that broke off as one piece would widen the
spread before it is let go, and the plane would settle between both."""
START, ITERATIONS = 4, 10
LEAST_SPREAD = 0.05
"""mm; keeps the weights finite where a few points fit perfectly."""


class Fit(NamedTuple):
    """Fits of b systems with P values and K parameters."""

    solution: Float
    """(b, K)"""
    residual: Float
    """(b, P); 0 outside of the mask."""
    weight: Float
    """(b, P) above 1 for values that fit, towards 0 for outliers."""
    spread: Float
    """(b,) scale of the errors beyond their stated ones; of normal errors, about 0.8 of the standard deviation."""
    precision: Float
    """(b, K, K) inverse covariance of the solution."""


def student_fit(design: Float, values: Float, error: Float, mask: NDArray[np.bool_], prior: Float) -> Fit:
    """Most likely parameters under errors of Student's t distribution, by iteratively reweighted least squares.

    Args:
        design: (b, P, K). values: (b, P). error: (b, P) stated standard errors. mask: (b, P).
        prior: (K, K) or (b, K, K) inverse covariance of the parameters before looking.
    """
    count = np.maximum(mask.sum(1), 1)
    stated = (mask * error**2).sum(1) / count
    # Systems are solved together: a column that only others need, of a track for one, takes no freedom from this one.
    needed = ((design != 0) & mask[..., None]).any(1).sum(1)
    freedom = np.maximum(count - needed + 1, 1)
    spread = np.full(len(values), 0.5)
    weight = np.ones_like(values)
    for step in range(ITERATIONS):
        variance = error**2 + (spread**2)[:, None]
        weighted = ((weight * mask / variance)[..., None] * design).transpose(0, 2, 1)
        precision = weighted @ design + prior
        solution = np.linalg.solve(precision, weighted @ values[..., None])
        residual = np.where(mask, values - (design @ solution)[..., 0], 0)
        if step < START:
            weight = 2 / (1 + residual**2 / variance)
            continue
        weight = (FREEDOM + 1) / (FREEDOM + residual**2 / variance)
        beyond = (weight * mask * residual**2).sum(1) / freedom - stated
        spread = np.sqrt(np.maximum(beyond, LEAST_SPREAD**2))
    return Fit(solution[..., 0], residual, weight, spread, precision)


def misfit(residual: Float, variance: Float, mask: NDArray[np.bool_]) -> Float:
    """(b,) negative log likelihood of residuals under the same distribution, up to a constant."""
    scaled = residual**2 / (FREEDOM * variance)
    return np.asarray(((FREEDOM + 1) / 2 * np.log1p(scaled) * mask).sum(1), float)
