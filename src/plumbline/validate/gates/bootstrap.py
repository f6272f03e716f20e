"""Bound drops by the bootstrap, for both families.

A resample is given by how often each building is in it, so every metric here is one of
weighted buildings. With every weight 1 it is the figure of `validate.metrics`.

Shape legend: R resamples, B buildings, K columns.

A rule `max_drop_vs` is a test of non-inferiority (CONSORT extension, Piaggio et al. 2012;
EMA guideline on the choice of the non-inferiority margin, 2005): not "no difference was
found", but "a drop as large as the margin is ruled out". It is met where the one-sided
upper confidence bound of the drop is within the margin. The bound is the percentile of the
bootstrap (Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapters 6 and 13):
buildings are drawn with replacement as often as there are buildings, *the same draw for
both artifacts*, the drop of each draw is computed, and the bound is the quantile of these
drops. Both see the same buildings, so what makes a building hard for both cancels; the
bound is much nearer than two intervals side by side.

Shape legend: R resamples, B buildings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.core.strain import category
from plumbline.params.validate import HIGHER_IS_BETTER, OF_QUADRANTS
from plumbline.validate.metrics import (
    BINS,
    COVERED,
    SEVERE_PERMILLE,
    JudgedAnswers,
    bin_of,
    most_confident_first,
)

OfResamples = Callable[[Float], Float]
"""(R, B) how often each building is in each resample -> (R,) the metric of each; NaN where
a resample has none."""


def of_buildings(judged: JudgedAnswers, severity_true: Float) -> dict[str, OfResamples]:
    """Return the function of each metric of severities and intervals.

    Args:
        judged: answers for B buildings. severity_true: (B,) permille.
    """
    error = judged.severity - severity_true
    categories, severe = category(judged.severity), severity_true >= SEVERE_PERMILLE
    return {
        "severity_mae": _mean(np.abs(error)),
        "severity_r2": _r2(error, severity_true),
        "category_accuracy": _mean(categories == category(severity_true)),
        "interval_coverage": _mean((judged.low <= severity_true) & (severity_true <= judged.high)),
        "interval_width": _mean(judged.high - judged.low),
        "missed_share": _share(severe & (categories == 0), severe),
    }


def of_quadrants(judged: JudgedAnswers, quadrant_true: NDArray[np.int64]) -> dict[str, OfResamples]:
    """Return the function of each metric of quadrants.

    Args:
        judged: finite answers for B buildings. quadrant_true: (B,) code, of buildings that
            have one.
    """
    predicted, truth = judged.probability.argmax(1), judged.truth(quadrant_true)
    right = predicted == truth
    return {
        "quadrant_accuracy": _mean(right),
        "quadrant_macro_f1": _macro_f1(predicted, truth),
        "expected_calibration_error": _calibration_error(judged.quadrant_confidence, right),
        "quadrant_accuracy_at_70": _accuracy_at(judged.quadrant_confidence, right, COVERED),
    }


def _mean(values_B: NDArray[np.generic]) -> OfResamples:
    column = values_B.astype(float)
    return lambda weights_RB: weights_RB @ column / weights_RB.sum(1)


def _share(part_B: NDArray[np.bool_], whole_B: NDArray[np.bool_]) -> OfResamples:
    columns_BK = np.column_stack([part_B, whole_B]).astype(float)

    def of(weights_RB: Float) -> Float:
        part, whole = (weights_RB @ columns_BK).T
        return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)

    return of


def _r2(error_B: Float, true_B: Float) -> OfResamples:
    # So that no large squares are taken from each other.
    centred = true_B.astype(float) - true_B.mean()
    columns_BK = np.column_stack([error_B.astype(float) ** 2, centred, centred**2])

    def of(weights_RB: Float) -> Float:
        squared_error, total, squares = (weights_RB @ columns_BK).T
        spread = squares - total**2 / weights_RB.sum(1)
        # One building drawn again and again has no spread, but for rounding.
        has_spread = spread > 1e-12 * max(1.0, float(columns_BK[:, 2].sum()))
        return np.where(has_spread, 1 - squared_error / np.where(has_spread, spread, 1), np.nan)

    return of


def _macro_f1(said_B: NDArray[np.int64], true_B: NDArray[np.int64]) -> OfResamples:
    codes = np.arange(4)
    is_said, is_true = said_B[:, None] == codes, true_B[:, None] == codes
    columns_BK = np.hstack([is_said & is_true, is_said.astype(int) + is_true]).astype(float)

    def of(weights_RB: Float) -> Float:
        hits, totals = np.split(weights_RB @ columns_BK, 2, axis=1)
        present = totals > 0
        return np.asarray((2 * hits / np.where(present, totals, 1)).sum(1) / present.sum(1))

    return of


def _calibration_error(confidence_B: Float, right_B: NDArray[np.bool_]) -> OfResamples:
    # |accuracy - confidence| of a bin, times its share, is |sum of (right - confidence)|
    # over all buildings.
    gap_B = right_B - confidence_B.astype(float)
    columns_BK = np.where(
        bin_of(confidence_B, BINS)[:, None] == np.arange(BINS), gap_B[:, None], 0.0
    )
    return lambda weights_RB: np.abs(weights_RB @ columns_BK).sum(1) / weights_RB.sum(1)


def _accuracy_at(confidence_B: Float, right_B: NDArray[np.bool_], share: float) -> OfResamples:
    order = most_confident_first(confidence_B)
    right = right_B[order].astype(float)

    def of(weights_RB: Float) -> Float:
        reached_RB = np.cumsum(weights_RB[:, order], axis=1)
        first = np.round(share * reached_RB[:, -1:])
        taken_RB = np.diff(np.minimum(reached_RB, first), axis=1, prepend=0)
        return np.where(first[:, 0] > 0, taken_RB @ right / np.maximum(first[:, 0], 1), np.nan)

    return of


RESAMPLES = 2000
"""Enough for a 95 % bound: by chance of the draws it moves by about 3 % of its distance to
the drop."""
SEED = 0
CELLS = 1 << 18
"""Largest number of resamples times buildings at a time: bounds the memory to some tens of MB."""


Resampled = dict[tuple[str, str], Float]
"""(metric, name) -> (R,) figures."""


class MetricPair(NamedTuple):
    """Comparison of one metric between an artifact and a reference."""

    metric: str
    artifact: str
    reference: str


def resampled_figures(
    wanted: Collection[tuple[str, str]],
    everyone: Mapping[str, JudgedAnswers],
    quadrant_true: NDArray[np.int64],
    severity_true: Float,
) -> Resampled:
    """Return the figures of each (metric, name) in each resample.

    Metrics of quadrants are resampled among the buildings that have one. All see the same
    resamples, and a second call sees them again.

    Args:
        everyone: answers of each contender for B buildings. quadrant_true: (B,) code, -1 below
            category 1.
        severity_true: (B,) permille.

    Returns:
        (metric, name) -> (R,) figures, NaN where a resample has none. One is left out where
        there is no finite answer to every building, or where there is no building.
    """
    defined = np.asarray(quadrant_true) >= 0
    resampled: Resampled = {}
    for of_quadrant in (False, True):
        inside = defined if of_quadrant else np.ones(len(defined), dtype=bool)
        functions: dict[tuple[str, str], OfResamples] = {}
        for metric, name in sorted(
            key for key in wanted if (key[0] in OF_QUADRANTS) is of_quadrant
        ):
            function = _metric_function(
                metric,
                everyone.get(name),
                inside,
                np.asarray(quadrant_true),
                np.asarray(severity_true),
            )
            if function is not None:
                functions[metric, name] = function
        if not functions:
            continue
        figures: dict[tuple[str, str], list[Float]] = {key: [] for key in functions}
        for weights_RB in resamples(int(inside.sum())):
            for key, function in functions.items():
                figures[key].append(function(weights_RB))
        resampled |= {key: np.concatenate(parts) for key, parts in figures.items()}
    return resampled


def drops_in(resampled: Resampled, pairs: Collection[MetricPair]) -> dict[MetricPair, Float]:
    """Return how much worse each pair's artifact is than its reference, in each resample.

    Returns:
        MetricPair -> (R,) drops in the metric's unit, above 0: worse; NaN where a resample has no
        such figure. A pair is left out where one of the two has no figures.
    """
    drops: dict[MetricPair, Float] = {}
    for pair in pairs:
        of_artifact, of_reference = (pair.metric, pair.artifact), (pair.metric, pair.reference)
        if of_artifact in resampled and of_reference in resampled:
            gain = resampled[of_artifact] - resampled[of_reference]
            drops[pair] = 0 - gain if HIGHER_IS_BETTER[pair.metric] else gain  # no -0
    return drops


def resampled_drops(
    pairs: Collection[MetricPair],
    everyone: Mapping[str, JudgedAnswers],
    quadrant_true: NDArray[np.int64],
    severity_true: Float,
) -> dict[MetricPair, Float]:
    """Return the drops of `pairs` on these buildings: `drops_in` the figures of
    `resampled_figures`."""
    keys = {(pair.metric, name) for pair in pairs for name in (pair.artifact, pair.reference)}
    return drops_in(resampled_figures(keys, everyone, quadrant_true, severity_true), pairs)


def upper_bound(drops: Float, confidence: float) -> float:
    """Return the quantile `confidence` of the drops; infinite if too many resamples lack a figure.

    A resample without a figure counts as the worst drop of all.
    """
    finite = np.where(np.isfinite(drops), drops, np.inf)
    return float(np.quantile(finite, confidence, method="higher"))


def resamples(count: int, number: int = RESAMPLES, seed: int = SEED) -> Iterator[Float]:
    """Yield (R, B) how often each of `count` buildings is in each resample, some resamples
    at a time."""
    rng = np.random.default_rng(seed)
    rows = max(1, CELLS // count)
    for start in range(0, number, rows):
        size = min(rows, number - start)
        drawn = rng.integers(0, count, size=(size, count), dtype=np.int32).astype(np.int64)
        drawn += np.arange(size)[:, None] * count
        yield np.bincount(drawn.ravel(), minlength=size * count).reshape(size, count).astype(float)


def _metric_function(
    metric: str,
    judged: JudgedAnswers | None,
    inside: NDArray[np.bool_],
    quadrant_true: NDArray[np.int64],
    severity_true: Float,
) -> OfResamples | None:
    """Return the function that computes the metric on the buildings `inside`; None where it
    has no figure there."""
    if judged is None or not inside.any():
        return None
    interval_ends = {"interval_coverage": ("low", "high"), "interval_width": ("low", "high")}
    names = ("probability",) if metric in OF_QUADRANTS else interval_ends.get(metric, ("severity",))
    if not all(np.isfinite(np.asarray(getattr(judged, name))[inside]).all() for name in names):
        return None
    part = judged.select(inside)
    return (
        of_quadrants(part, quadrant_true[inside])[metric]
        if metric in OF_QUADRANTS
        else of_buildings(part, severity_true[inside])[metric]
    )
