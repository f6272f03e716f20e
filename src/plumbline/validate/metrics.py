"""Measure accuracy and confidence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.core.compass import of_likeliest
from plumbline.core.strain import category

Rows = list[dict[str, float]]

COVERED = 0.7
"""Share of the buildings that selective accuracy is taken over, the most confident first."""
STEPS = 50
"""Shares at which accuracy is tabled."""
BINS = 15
"""Equal bins of confidence that the calibration error is taken over."""


def confidence_bins(confidence: Float, right: NDArray[np.bool_], bins: int = BINS) -> Rows:
    """Return confidence, accuracy and share of buildings in each non-empty bin of
    confidence; bins are equal.

    Args:
        confidence: (B,) within 0 and 1; NaN is in no bin. right: (B,) whether the answer was.
    """
    is_number = np.isfinite(confidence)
    confidence, right = confidence[is_number], right[is_number]
    place = bin_of(confidence, bins)
    return [
        {
            "confidence": float(confidence[place == number].mean()),
            "accuracy": float(right[place == number].mean()),
            "share": float((place == number).mean()),
        }
        for number in np.unique(place)
    ]


def bin_of(confidence: Float, bins: int) -> NDArray[np.int64]:
    """Return (B,) the bin number of each confidence from 0 to 1."""
    return np.minimum((confidence * bins).astype(np.int64), bins - 1)


def expected_calibration_error(
    confidence: Float, right: NDArray[np.bool_], bins: int = BINS
) -> float:
    """Return the mean gap between confidence and accuracy over equal bins (Naeini, Cooper
    and Hauskrecht 2015)."""
    return float(
        sum(
            abs(row["accuracy"] - row["confidence"]) * row["share"]
            for row in confidence_bins(confidence, right, bins)
        )
    )


def accuracy_at(confidence: Float, right: NDArray[np.bool_], share: float = COVERED) -> float:
    """Return the accuracy among the `share` of buildings with the highest confidence; NaN
    if there are none."""
    first = right[most_confident_first(confidence)][: round(share * len(right))]
    return float(first.mean()) if len(first) else float("nan")


def accuracy_by_coverage(confidence: Float, right: NDArray[np.bool_], steps: int = STEPS) -> Rows:
    """Return the curve of accuracy against coverage (El-Yaniv and Wiener 2010,
    risk-coverage), most confident first.

    Returns:
        For each of at most `steps` shares up to all: `coverage`, the least `confidence`
            among them, and `accuracy`.
    """
    order = most_confident_first(confidence)
    if not len(order):
        return []
    reached = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    # Rounded up, so that a share is of at least one building and the last is all.
    ends = np.unique(np.ceil(np.arange(1, steps + 1) * len(order) / steps).astype(int))
    return [
        {
            "coverage": float(end / len(order)),
            "confidence": float(confidence[order[end - 1]]),
            "accuracy": float(reached[end - 1]),
        }
        for end in ends
    ]


def share_error(share: float, count: int) -> float:
    """Return the binomial standard error of a share of `count` buildings."""
    return float(np.sqrt(share * (1 - share) / count)) if count else float("nan")


def most_confident_first(confidence: Float) -> NDArray[np.intp]:
    """Return (B,) indices of the buildings by falling confidence; equal ones keep their order."""
    return np.argsort(-np.asarray(confidence, float), kind="stable")


Figures = dict[str, float]

SEVERE_PERMILLE = 1.5
"""Smallest severity (category 3) at which an undetected building counts as missed."""
RATES = (0.02, 0.1, 0.5)
"""Shares of damaged buildings at which the probability of damage is checked."""


class JudgedAnswers(NamedTuple):
    """Answers for B buildings."""

    probability: Float
    """(B, 4)"""
    severity: Float
    """(B,) permille"""
    low: Float
    high: Float
    confidence: Float | None = None
    """(B,) that the likeliest quadrant is a right answer; without, its probability."""
    p_damaged: Float | None = None
    """(B,) probability of category 1 and above, where the share `share` of the buildings is
    damaged."""
    share: float = float("nan")
    accepted: NDArray[np.bool_] | None = None
    """(B, 4) quadrants that are right by the labels; without, the quadrant of the label alone."""

    def select(self, rows: Any) -> JudgedAnswers:
        """Return the answers for some of the buildings."""
        parts = {name: getattr(self, name) for name in self._fields if name != "share"}
        return self._replace(
            **{name: np.asarray(part)[rows] for name, part in parts.items() if part is not None}
        )

    def truth(self, quadrant_true: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return (B,) the true quadrant; of several right answers, the predicted one."""
        if self.accepted is None or not len(quadrant_true):
            return quadrant_true
        right = of_likeliest(self.probability, self.accepted)
        return np.where(right & (quadrant_true >= 0), self.probability.argmax(1), quadrant_true)

    @property
    def quadrant_confidence(self) -> Float:
        """Return (B,) the confidence of the quadrant."""
        return self.probability.max(1) if self.confidence is None else self.confidence


def accuracy_figures(
    judged: JudgedAnswers, quadrant_true: NDArray[np.int64], severity_true: Float
) -> Figures:
    """Return all accuracy metrics of these buildings, except those that are undefined for them.

    Args:
        judged: what was said. quadrant_true: (B,) code, -1 below category 1. severity_true:
            (B,) permille.
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
    # No number is of the highest category, so that a broken model would seem to say it; nor
    # does it lie in an interval.
    if np.isfinite(judged.severity).all():
        figures["category_accuracy"] = float(
            (category(judged.severity) == category(severity_true)).mean()
        )
    if np.isfinite(judged.low).all() and np.isfinite(judged.high).all():
        figures["interval_coverage"] = float(
            ((judged.low <= severity_true) & (severity_true <= judged.high)).mean()
        )
        figures["interval_width"] = float((judged.high - judged.low).mean())
    defined = quadrant_true >= 0
    figures["buildings_with_quadrant"] = float(defined.sum())
    # The largest of NaNs is the first, so that a broken model would seem to answer NE.
    if defined.any() and np.isfinite(judged.probability[defined]).all():
        predicted, true = (
            judged.probability[defined].argmax(1),
            judged.truth(quadrant_true)[defined],
        )
        figures["quadrant_accuracy"] = float((predicted == true).mean())
        figures["quadrant_macro_f1"] = macro_f1(predicted, true)
        confidence = judged.quadrant_confidence[defined]
        figures["expected_calibration_error"] = expected_calibration_error(
            confidence, predicted == true
        )
        figures["quadrant_accuracy_at_70"] = accuracy_at(confidence, predicted == true, COVERED)
    severe = severity_true >= SEVERE_PERMILLE
    if severe.any() and np.isfinite(judged.severity).all():
        figures["missed_share"] = float((category(judged.severity[severe]) == 0).mean())
    return figures | damage_calibration(judged, severity_true)


def damage_calibration(judged: JudgedAnswers, severity_true: Float) -> Figures:
    """Return the calibration error of the probability of damage at shares of 2, 10 and 50 %
    damaged buildings.

    The buildings are weighted so that they are such a city; the probabilities follow by
    Bayes' rule.
    """
    damaged = category(severity_true) > 0
    p = judged.p_damaged
    if p is None or not damaged.any() or damaged.all() or not np.isfinite(p).all():
        return {}
    figures = {}
    for rate in RATES:
        odds = p / np.maximum(1 - p, 1e-12) * rate / (1 - rate) * (1 - judged.share) / judged.share
        weight = np.where(damaged, rate / damaged.mean(), (1 - rate) / (1 - damaged.mean())) / len(
            p
        )
        probability = odds / (1 + odds)
        gap = np.bincount(
            bin_of(probability, BINS), weight * (damaged - probability), minlength=BINS
        )
        figures[f"damage_calibration_{100 * rate:.0f}"] = float(np.abs(gap).sum())
    return figures


def macro_f1(predicted: NDArray[np.int64], true: NDArray[np.int64]) -> float:
    """Return the mean F1 over the quadrants, except those neither true nor predicted of any
    building."""
    values = []
    for code in range(4):
        hit = int(((predicted == code) & (true == code)).sum())
        total = int((predicted == code).sum() + (true == code).sum())
        if total:
            values.append(2 * hit / total)
    return float(np.mean(values))
