"""Fit a quantile to cells of scenes: what intervals are calibrated by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from scipy import optimize

from plumbline.fields.model.spread import COVERAGE, Float

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
    """Return the constant and the weights (P,) of the linear function that `COVERAGE` of `wanted` lie below.

    Args:
        design: (N, P). wanted: (N,). share: (N,) how much each counts, of 1.
        scenes: number of them, which the penalty on the weights depends on; the constant has none.
    """
    ridge = RIDGE / scenes

    def loss(values: Float) -> tuple[float, Float]:
        rest = wanted - values[0] - design @ values[1:]
        value = share @ (COVERAGE * rest + SOFT * np.logaddexp(0, -rest / SOFT)) + ridge / 2 * values[1:] @ values[1:]
        slope = share * (COVERAGE - 1 / (1 + np.exp(np.clip(rest / SOFT, -50, 50))))
        return float(value), np.r_[-slope.sum(), ridge * values[1:] - design.T @ slope]

    begin = np.zeros(1 + design.shape[1])
    begin[0] = np.quantile(wanted, COVERAGE)
    moved = optimize.minimize(loss, begin, jac=True, method="L-BFGS-B", options={"maxiter": 300}).x
    return float(moved[0]), np.asarray(moved[1:], float)


def held_out_shift(
    rows: Sequence[Row], numbers: Sequence[int], fit: Callable[[list[Row]], Fit], left: Callable[[Row, Fit], Float]
) -> float:
    """Return what is added to a fit's constant, so that `COVERAGE` holds in scenes that were not fitted.

    The cells of a scene err together, so that a fit follows its few scenes. Each fold of the scenes is held against a
    fit to the others (Vovk 2015, Cross-conformal predictors).

    Args:
        rows: cells of scenes. numbers: the scene of each. fit: fits some rows. left: what a fit leaves of a row.
    """
    known = np.unique(np.asarray(numbers))
    rest, share = [], []
    for fold in range(min(FOLDS, len(known))):
        out = set(known[fold::FOLDS].tolist())
        others = [row for row, number in zip(rows, numbers, strict=True) if number not in out]
        if not others:
            return 0.0
        fitted = fit(others)
        for row, number in zip(rows, numbers, strict=True):
            if number in out:
                rest.append(left(row, fitted))
                share.append(np.full(len(rest[-1]), 1 / len(rest[-1])))
    return _quantile(np.concatenate(rest), np.concatenate(share))


def _quantile(values: Float, weight: Float) -> float:
    order = np.argsort(values)
    held = np.cumsum(weight[order]) / weight.sum()
    return float(values[order][np.searchsorted(held, COVERAGE)])
