"""Compute metrics for many resamples of the same buildings at once.

A resample is given by how often each building is in it, so every metric here is one of weighted buildings. With every
weight 1 it is the figure of `validate.metrics`.

Shape legend: R resamples, B buildings, K columns.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from plumbline.core.strain import category
from plumbline.validate.confidence import BINS, COVERED, bin_of, most_confident_first
from plumbline.validate.metrics import SEVERE_PERMILLE, Judged

Float = NDArray[np.floating]
OfResamples = Callable[[Float], Float]
"""(R, B) how often each building is in each resample -> (R,) the metric of each; NaN where a resample has none."""


def of_all(metric: str, judged: Judged, severity_true: Float) -> OfResamples | None:
    """Return the function for a metric of severities or intervals; None for any other `metric`.

    Args:
        judged: finite answers for B buildings. severity_true: (B,) permille.
    """
    error = judged.severity - severity_true
    if metric == "severity_mae":
        return _mean(np.abs(error))
    if metric == "severity_r2":
        return _r2(error, severity_true)
    if metric == "category_accuracy":
        return _mean(category(judged.severity) == category(severity_true))
    if metric == "interval_coverage":
        return _mean((judged.low <= severity_true) & (severity_true <= judged.high))
    if metric == "interval_width":
        return _mean(judged.high - judged.low)
    if metric == "missed_share":
        severe = severity_true >= SEVERE_PERMILLE
        return _share(severe & (category(judged.severity) == 0), severe)
    return None


def of_quadrants(metric: str, judged: Judged, quadrant_true: NDArray[np.int64]) -> OfResamples | None:
    """Return the function for a metric of quadrants; None for any other `metric`.

    Args:
        judged: finite answers for B buildings. quadrant_true: (B,) code, of buildings that have one.
    """
    said, confidence = judged.probability.argmax(1), judged.sure
    quadrant_true = judged.truth(quadrant_true)
    right = said == quadrant_true
    if metric == "quadrant_accuracy":
        return _mean(right)
    if metric == "quadrant_macro_f1":
        return _macro_f1(said, quadrant_true)
    if metric == "expected_calibration_error":
        return _calibration_error(confidence, right)
    if metric == "quadrant_accuracy_at_70":
        return _accuracy_at(confidence, right, COVERED)
    return None


def _mean(values_B: NDArray[np.generic]) -> OfResamples:
    column = values_B.astype(float)
    return lambda weights_RB: weights_RB @ column / weights_RB.sum(1)


def _share(part_B: NDArray[np.bool_], whole_B: NDArray[np.bool_]) -> OfResamples:
    columns_BK = np.column_stack([part_B, whole_B]).astype(float)

    def of(weights_RB: Float) -> Float:
        part, whole = (weights_RB @ columns_BK).T
        found: Float = np.where(whole > 0, part / np.maximum(whole, 1), np.nan)
        return found

    return of


def _r2(error_B: Float, true_B: Float) -> OfResamples:
    centred = true_B.astype(float) - true_B.mean()  # so that no large squares are taken from each other
    columns_BK = np.column_stack([error_B.astype(float) ** 2, centred, centred**2])

    def of(weights_RB: Float) -> Float:
        squared_error, total, squares = (weights_RB @ columns_BK).T
        spread = squares - total**2 / weights_RB.sum(1)
        # One building drawn again and again has no spread, but for rounding.
        told = spread > 1e-12 * max(1.0, float(columns_BK[:, 2].sum()))
        r2: Float = np.where(told, 1 - squared_error / np.where(told, spread, 1), np.nan)
        return r2

    return of


def _macro_f1(said_B: NDArray[np.int64], true_B: NDArray[np.int64]) -> OfResamples:
    codes = np.arange(4)
    is_said, is_true = said_B[:, None] == codes, true_B[:, None] == codes
    columns_BK = np.hstack([is_said & is_true, is_said.astype(int) + is_true]).astype(float)

    def of(weights_RB: Float) -> Float:
        hits, totals = np.split(weights_RB @ columns_BK, 2, axis=1)
        present = totals > 0
        f1: Float = (2 * hits / np.where(present, totals, 1)).sum(1) / present.sum(1)
        return f1

    return of


def _calibration_error(confidence_B: Float, right_B: NDArray[np.bool_]) -> OfResamples:
    # |accuracy - confidence| of a bin, times its share, is |sum of (right - confidence)| over all buildings.
    gap_B = right_B - confidence_B.astype(float)
    columns_BK = np.where(bin_of(confidence_B, BINS)[:, None] == np.arange(BINS), gap_B[:, None], 0.0)
    return lambda weights_RB: np.abs(weights_RB @ columns_BK).sum(1) / weights_RB.sum(1)


def _accuracy_at(confidence_B: Float, right_B: NDArray[np.bool_], share: float) -> OfResamples:
    order = most_confident_first(confidence_B)
    right = right_B[order].astype(float)

    def of(weights_RB: Float) -> Float:
        reached_RB = np.cumsum(weights_RB[:, order], axis=1)
        first = np.round(share * reached_RB[:, -1:])
        taken_RB = np.diff(np.minimum(reached_RB, first), axis=1, prepend=0)
        accuracy: Float = np.where(first[:, 0] > 0, taken_RB @ right / np.maximum(first[:, 0], 1), np.nan)
        return accuracy

    return of
