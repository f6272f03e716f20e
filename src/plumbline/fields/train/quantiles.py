"""Fit a quantile to cells of scenes, to calibrate intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from scipy import optimize

from plumbline.core.arrays import Float
from plumbline.fields.model.spread import COVERAGE

FOLDS = 5
SOFT = 0.05
"""Width of the rounded tip of the quantile's loss."""
RIDGE = 2.0
"""Penalty on squared weights, in units of a scene: few scenes move the weights little."""
Row = TypeVar("Row")
Fit = TypeVar("Fit")


def equal_shares(sizes: Sequence[int]) -> Float:
    """Return how much each cell (N,) counts, so that scenes of `sizes` cells count alike."""
    return np.repeat([1 / (len(sizes) * size) for size in sizes], sizes)


def fit_quantile(design: Float, wanted: Float, share: Float, scenes: int) -> tuple[float, Float]:
    """Return constant and weights (P,) of the linear function that exceeds `COVERAGE` of `wanted`.

    Args:
        design: (N, P). wanted: (N,). share: (N,) how much each counts, of 1.
        scenes: number of them, which the penalty on the weights depends on; the constant has none.
    """
    ridge = RIDGE / scenes

    def loss(values: Float) -> tuple[float, Float]:
        error = wanted - values[0] - design @ values[1:]
        value = (
            share @ (COVERAGE * error + SOFT * np.logaddexp(0, -error / SOFT))
            + ridge / 2 * values[1:] @ values[1:]
        )
        slope = share * (COVERAGE - 1 / (1 + np.exp(np.clip(error / SOFT, -50, 50))))
        return float(value), np.r_[-slope.sum(), ridge * values[1:] - design.T @ slope]

    begin = np.zeros(1 + design.shape[1])
    begin[0] = np.quantile(wanted, COVERAGE)
    solution = optimize.minimize(
        loss, begin, jac=True, method="L-BFGS-B", options={"maxiter": 300}
    ).x
    return float(solution[0]), np.asarray(solution[1:], float)


def held_out_shift(
    rows: Sequence[Row],
    numbers: Sequence[int],
    fit: Callable[[list[Row]], Fit],
    residuals_of: Callable[[Row, Fit], Float],
) -> float:
    """Return the shift of a fit with which `COVERAGE` is reached in scenes that were not fitted.

    The errors of a scene's cells are correlated, so a fit follows its few scenes. Each fold of the
    scenes is compared with a fit to the other folds (Vovk 2015, Cross-conformal predictors).

    Args:
        rows: cells of scenes. numbers: the scene of each. fit: fits some rows.
        residuals_of: returns the residuals of a row from a fit.
    """
    scene_numbers = np.unique(np.asarray(numbers))
    residuals, shares = [], []
    for fold in range(min(FOLDS, len(scene_numbers))):
        held_out = set(scene_numbers[fold::FOLDS].tolist())
        fitted_rows = [
            row for row, number in zip(rows, numbers, strict=True) if number not in held_out
        ]
        if not fitted_rows:
            return 0.0
        fitted = fit(fitted_rows)
        for row, number in zip(rows, numbers, strict=True):
            if number in held_out:
                residuals.append(residuals_of(row, fitted))
                shares.append(np.full(len(residuals[-1]), 1 / len(residuals[-1])))
    return _quantile(np.concatenate(residuals), np.concatenate(shares))


def _quantile(values: Float, weight: Float) -> float:
    order = np.argsort(values)
    cumulative = np.cumsum(weight[order]) / weight.sum()
    return float(values[order][np.searchsorted(cumulative, COVERAGE)])
