"""Take figures of a list of buildings to inspect: at another share of damaged ones, and as a user finds it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.heldout.scores import LOWEST_PERMILLE

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
RATES = (0.02, 0.1, 0.5)
"""Shares of damaged buildings that figures are taken at."""
SCORES = ("severity_permille", "severity_low", "p_damaged")
"""Columns that buildings can be sorted by."""
PRECISE, ALARM, BINS = 0.5, 2, 10
"""Precision at which recall is taken; least category that is an alarm; bins of the calibration error."""
ALIKE = 0.01
"""Relative difference up to which two rates are the same."""
FLAGGED = 0.5
"""Least `p_damaged` of a building that is flagged."""


class Triage(NamedTuple):
    """Figures at one rate; NaN where there is no column, or no building, to take one of."""

    rate: float
    average_precision: dict[str, float]
    """By `SCORES`."""
    recall: dict[str, float]
    """By `SCORES`: the largest share of the damaged that is found at a precision of `PRECISE` or more."""
    false_alarms: float
    """Share of the sound buildings that have a category from `ALARM` up."""
    sound_alarms: float
    """Share of those with a category from `ALARM` up that is sound."""
    calibration_error: float
    """Of `p_damaged`, if the predictions are made for this rate or do not say their rate."""


def triage(judged: pd.DataFrame, rate: float) -> Triage:
    """Take the figures of judged buildings, weighted so that a share `rate` is damaged.

    Args:
        judged: predictions beside `true`, permille.
        rate: the share.
    """
    damaged = judged["true"].to_numpy(float) >= LOWEST_PERMILLE
    weight = weights(damaged, rate)
    curves = {
        name: precision_recall(judged[name].to_numpy(float), damaged, weight) for name in SCORES if name in judged
    }
    missing = dict.fromkeys(SCORES, float("nan"))
    alarm = judged["burland_category"].to_numpy(float) >= ALARM
    own = own_rate(judged)
    error = float("nan")
    if "p_damaged" in judged and (own is None or abs(own - rate) <= ALIKE * rate):
        error = calibration_error(judged["p_damaged"].to_numpy(float), damaged, weight)
    return Triage(
        rate,
        missing | {name: average_precision(*curve) for name, curve in curves.items()},
        missing | {name: recall_at(*curve) for name, curve in curves.items()},
        _share(alarm, weight * ~damaged),
        _share(~damaged, weight * alarm),
        error,
    )


def own_rate(judged: pd.DataFrame) -> float | None:
    """Return the rate that predictions are made for; None: they do not say."""
    if "damage_rate" not in judged:
        return None
    rates = judged["damage_rate"].dropna().astype(float)
    return float(rates.median()) if len(rates) else None


def weights(damaged: Bools, rate: float) -> Array:
    """Return weights (B,) of sum 1 with which a share `rate` is damaged."""
    share = np.where(damaged, rate, 1 - rate)
    return np.asarray(share / np.where(damaged, damaged.sum(), (~damaged).sum()))


def precision_recall(score: Array, damaged: Bools, weight: Array) -> tuple[Array, Array]:
    """Return precision and recall (K,) at each value of a score, the highest first; equal values count together.

    Args:
        score: (B,) NaN counts as the lowest.
        damaged: (B,)
        weight: (B,)
    """
    score = np.where(np.isnan(score), -np.inf, score)
    _, place = np.unique(-score, return_inverse=True)
    found = np.cumsum(np.bincount(place, weight * damaged))
    named = np.cumsum(np.bincount(place, weight))
    if not damaged.any():
        return np.empty(0), np.empty(0)
    return found / named, found / found[-1]


def average_precision(precision: Array, recall: Array) -> float:
    """Return the mean precision over steps of recall, as scikit-learn takes it; NaN without a damaged building."""
    return float(np.sum(np.diff(recall, prepend=0) * precision)) if len(recall) else float("nan")


def recall_at(precision: Array, recall: Array, least: float = PRECISE) -> float:
    """Return the largest recall at a precision of `least` or more; 0 where there is none."""
    if not len(recall):
        return float("nan")
    return float(recall[precision >= least - 1e-12].max(initial=0.0))


def calibration_error(probability: Array, damaged: Bools, weight: Array, bins: int = BINS) -> float:
    """Return the weighted mean gap between probability and share of damaged over equal bins of probability."""
    known = np.isfinite(probability)
    probability, damaged, weight = probability[known], damaged[known], weight[known]
    place = np.minimum((probability * bins).astype(int), bins - 1)
    gaps = np.bincount(place, weight * (probability - damaged), minlength=bins)
    return float(np.abs(gaps).sum() / weight.sum()) if weight.any() else float("nan")


def _share(which: Bools, weight: Array) -> float:
    return float(weight[which].sum() / weight.sum()) if weight.sum() > 0 else float("nan")


class Inspection(NamedTuple):
    """Numbers of buildings."""

    buildings: int
    damaged: int
    left_out: int
    left_out_damaged: int
    flagged: int
    flagged_damaged: int
    missed: int
    """Damaged, judged and not flagged."""
    in_first_20: int
    """Damaged among the first 20 of the list, sorted by `p_damaged`."""
    in_first_50: int
    in_first_100: int


def inspection(beside: pd.DataFrame) -> Inspection:
    """Count the buildings of one table of `mechanisms.read_beside`; predictions without `p_damaged` flag none."""
    damaged, judged = beside["true"] >= LOWEST_PERMILLE, beside["status"] == "ok"
    sorted_by = beside["p_damaged"] if "p_damaged" in beside else pd.Series(float("nan"), beside.index)
    p_damaged = sorted_by.where(judged)
    flagged = p_damaged >= FLAGGED
    listed = damaged[p_damaged.dropna().sort_values(ascending=False, kind="stable").index]
    return Inspection(
        len(beside),
        int(damaged.sum()),
        int((~judged).sum()),
        int((damaged & ~judged).sum()),
        int(flagged.sum()),
        int((damaged & flagged).sum()),
        int((damaged & judged & ~flagged).sum()),
        *(int(listed[:first].sum()) for first in (20, 50, 100)),
    )
