"""How far a figure would move with other buildings, from the very draws that the gates judge by (see `bootstrap`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.params.validate import OF_BUILDINGS
from plumbline.validate.gates.bootstrap import resampled_figures, upper_bound
from plumbline.validate.metrics import Float, Judged

SHARE = 0.95
"""Of the resamples that lie within a figure's interval."""


class Interval(NamedTuple):
    """Both ends of a figure's interval."""

    low: float
    high: float


Intervals = dict[str, dict[str, Interval]]
"""Contender -> metric -> interval."""


def intervals(
    everyone: Mapping[str, Judged], quadrant_true: NDArray[np.int64], severity_true: Float, reference: str,
    confidence: float = SHARE,
) -> tuple[Intervals, Intervals]:  # fmt: skip
    """95 % intervals of every metric over buildings of every contender, and bounds of its difference from a reference.

    Each end of a difference is a one-sided bound with `confidence`, as a rule `max_drop_vs` asks for it: the end on the
    worse side *is* that rule's `drop_bound`, of the same resamples. (The two together hold `2 confidence - 1`.)

    Args:
        everyone: contender -> what it said of the B buildings.
        quadrant_true: (B,) code, -1 below category 1. severity_true: (B,) permille.
        reference: the contender whose figures are taken from those of the others.
        confidence: `validate.confidence`.

    Returns:
        The figures' intervals, and those of the figures less the reference's; without those that cannot be told.
    """
    wanted = [(metric, name) for metric in OF_BUILDINGS for name in everyone]
    found = resampled_figures(wanted, everyone, quadrant_true, severity_true)
    own: Intervals = {name: {} for name in everyone}
    less: Intervals = {name: {} for name in everyone if name != reference}
    for (metric, name), figures in found.items():
        own[name] |= _told(metric, figures, (1 + SHARE) / 2)
        if name != reference and (metric, reference) in found:
            less[name] |= _told(metric, figures - found[metric, reference], confidence)
    return own, less


def _told(metric: str, values: Float, confidence: float) -> dict[str, Interval]:
    """Both one-sided bounds; nothing where too many resamples have no figure, as for a gate."""
    low, high = 0 - upper_bound(-values, confidence), upper_bound(values, confidence)
    return {metric: Interval(low, high)} if np.isfinite((low, high)).all() else {}
