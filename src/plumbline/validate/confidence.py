"""Measure confidence: its calibration, and the accuracy among the most confident."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating]
Rows = list[dict[str, float]]

COVERED = 0.7
"""Share of the buildings that selective accuracy is taken over, the most confident first."""
STEPS = 50
"""Shares at which accuracy is tabled."""
BINS = 15
"""Equal bins of confidence that the calibration error is taken over."""


def confidence_bins(confidence: Float, right: NDArray[np.bool_], bins: int = BINS) -> Rows:
    """Return confidence, accuracy and share of buildings in each non-empty bin of confidence; bins are equal.

    Args:
        confidence: (B,) within 0 and 1; NaN is in no bin. right: (B,) whether the answer was.
    """
    told = np.isfinite(confidence)
    confidence, right = confidence[told], right[told]
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


def expected_calibration_error(confidence: Float, right: NDArray[np.bool_], bins: int = BINS) -> float:
    """Return the mean gap between confidence and accuracy over equal bins (Naeini, Cooper and Hauskrecht 2015)."""
    return float(
        sum(abs(row["accuracy"] - row["confidence"]) * row["share"] for row in confidence_bins(confidence, right, bins))
    )


def chance_calibration_error(confidence: Float, bins: int = BINS) -> float:
    """Return the calibration error to expect by chance from perfect confidences; NaN without buildings.

    The gap of a bin of n is then about normal with variance `sum c (1 - c) / n^2`: its mean size is `sqrt(2 / pi)`
    standard deviations.
    """
    if not len(confidence):
        return float("nan")
    place = bin_of(confidence, bins)
    variance = np.bincount(place, confidence * (1 - confidence), minlength=bins)
    return float(np.sqrt(2 / np.pi * variance).sum() / len(confidence))


def accuracy_at(confidence: Float, right: NDArray[np.bool_], share: float = COVERED) -> float:
    """Return the accuracy among the `share` of buildings with the highest confidence; NaN if there are none."""
    first = right[most_confident_first(confidence)][: round(share * len(right))]
    return float(first.mean()) if len(first) else float("nan")


def accuracy_by_coverage(confidence: Float, right: NDArray[np.bool_], steps: int = STEPS) -> Rows:
    """Return the curve of accuracy against coverage (El-Yaniv and Wiener 2010, risk-coverage), most confident first.

    Returns:
        For each of at most `steps` shares up to all: `coverage`, the least `confidence` among them, and `accuracy`.
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
