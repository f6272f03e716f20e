"""One number to choose a checkpoint by, that neither task can win alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LEAST_BLIND_PERMILLE = 0.05
"""Error of the best constant answer that counts at least: where severities are equal, or there is one building, any
error is many times theirs, and the score would say nothing else. Splits of simulated cities have some twenty times
as much."""


class SplitScore(NamedTuple):
    """How good the answers of a split are."""

    quadrant_accuracy: float
    """Share of right quadrants among the buildings from category 1 up; 0 where there is none."""
    severity_mae: float
    """Mean absolute error, permille, over all buildings."""
    score: float
    """Accuracy minus the error relative to that of the best constant answer. Perfect: 1; answering blindly: -0.75."""


def score(
    probability: NDArray[np.floating], severity: NDArray[np.floating], quadrant_true: NDArray[np.int64],
    severity_true: NDArray[np.floating],
) -> SplitScore:  # fmt: skip
    """Compare answers with labels.

    Args:
        probability: (B, 4). severity: (B,) permille. quadrant_true: (B,) code or -1. severity_true: (B,) permille.
    """
    defined = quadrant_true >= 0
    hits = probability.argmax(1)[defined] == quadrant_true[defined]
    accuracy = float(hits.mean()) if defined.any() else 0.0
    error = float(np.abs(severity - severity_true).mean())
    blind = float(np.abs(severity_true - np.median(severity_true)).mean())
    return SplitScore(accuracy, error, accuracy - error / max(blind, LEAST_BLIND_PERMILLE))
