"""How good answers are, each figure with the buildings it is taken over."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.strain import category
from plumbline.validate.confidence import COVERED, accuracy_at, expected_calibration_error

Float = NDArray[np.floating]
Figures = dict[str, float]

HIGHER_IS_BETTER = {
    "quadrant_accuracy": True,
    "quadrant_macro_f1": True,
    "severity_mae": False,
    "severity_r2": True,
    "category_accuracy": True,
    "expected_calibration_error": False,
    "quadrant_accuracy_at_70": True,
    "interval_coverage": True,
    "interval_coverage_gap": False,
    "interval_width": False,
    "judged_share": True,
    "judged_quadrant_accuracy": True,
    "judged_severity_mae": False,
    "parity_probability": False,
    "parity_severity_permille": False,
    "novelty_change": False,
    "size_bytes": False,
    "weight_bytes": False,
    "size_ratio": False,
    "latency_ms": False,
    "latency_ratio": False,
    "buildings_per_second": True,
}
"""Every metric a gate may name, and which way is better. A ratio is to `float32`, measured in the same run."""


class Judged(NamedTuple):
    """What was said of B buildings."""

    probability: Float
    """(B, 4)"""
    severity: Float
    """(B,) permille"""
    low: Float
    high: Float


def accuracy_figures(judged: Judged, quadrant_true: NDArray[np.int64], severity_true: Float) -> Figures:
    """All accuracy metrics of some buildings; those that cannot be told are left out.

    Args:
        judged: what was said. quadrant_true: (B,) code, -1 below category 1. severity_true: (B,) permille.
    """
    figures: Figures = {"buildings": float(len(severity_true))}
    if not len(severity_true):
        return figures
    error = judged.severity - severity_true
    figures["severity_mae"] = float(np.abs(error).mean())
    spread = float(((severity_true - severity_true.mean()) ** 2).sum())
    # The mean of equal numbers need not be that number: rounding alone would be the spread.
    if spread > 0 and severity_true.min() < severity_true.max():
        figures["severity_r2"] = 1 - float((error**2).sum()) / spread
    # No number is of the highest category, so that a broken model would seem to say it; nor does it lie in an interval.
    if np.isfinite(judged.severity).all():
        figures["category_accuracy"] = float((category(judged.severity) == category(severity_true)).mean())
    if np.isfinite(judged.low).all() and np.isfinite(judged.high).all():
        figures["interval_coverage"] = float(((judged.low <= severity_true) & (severity_true <= judged.high)).mean())
        figures["interval_width"] = float((judged.high - judged.low).mean())
    defined = quadrant_true >= 0
    figures["buildings_with_quadrant"] = float(defined.sum())
    # The largest of NaNs is the first, so that a broken model would seem to say NE.
    if defined.any() and np.isfinite(judged.probability[defined]).all():
        said, true = judged.probability[defined].argmax(1), quadrant_true[defined]
        figures["quadrant_accuracy"] = float((said == true).mean())
        figures["quadrant_macro_f1"] = macro_f1(said, true)
        confidence = judged.probability[defined].max(1)
        figures["expected_calibration_error"] = expected_calibration_error(confidence, said == true)
        figures["quadrant_accuracy_at_70"] = accuracy_at(confidence, said == true, COVERED)
    return figures


def macro_f1(said: NDArray[np.int64], true: NDArray[np.int64]) -> float:
    """Mean over the quadrants of the harmonic mean of precision and recall; one never seen nor said is left out."""
    values = []
    for code in range(4):
        hit = int(((said == code) & (true == code)).sum())
        total = int((said == code).sum() + (true == code).sum())
        if total:
            values.append(2 * hit / total)
    return float(np.mean(values))
