"""How far a figure would move with other buildings: percentile bootstrap (Efron and Tibshirani 1993, chapter 13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.validate.metrics import Float, Judged, accuracy_figures

RESAMPLES = 400
SHARE = 0.95
"""Of the resamples that lie within the interval."""
TOLD = 0.9
"""Share of the resamples that must have a figure, for its interval to be told."""
COUNTS = ("buildings", "buildings_with_quadrant")


class Interval(NamedTuple):
    """Both ends of a figure's interval."""

    low: float
    high: float


Intervals = dict[str, dict[str, Interval]]
"""Contender -> metric -> interval."""


def intervals(
    everyone: Mapping[str, Judged],
    quadrant_true: NDArray[np.int64],
    severity_true: Float,
    reference: str,
    resamples: int = RESAMPLES,
) -> tuple[Intervals, Intervals]:
    """95 % intervals of every accuracy metric of every contender, and of its difference from the reference.

    Buildings are drawn with replacement, the same for all contenders: so the interval of a difference is that of pairs,
    narrower than the two figures' own would let one think.

    Args:
        everyone: contender -> what it said of the B buildings.
        quadrant_true: (B,) code, -1 below category 1. severity_true: (B,) permille.
        reference: the contender whose figures are taken from those of the others.
        resamples: how often buildings are drawn.

    Returns:
        The figures' intervals, and those of the figures less the reference's; without those that cannot be told.
    """
    random = np.random.default_rng(0)
    drawn: dict[str, list[dict[str, float]]] = {name: [] for name in everyone}
    for _ in range(resamples):
        index = random.integers(0, len(severity_true), len(severity_true))
        for name, judged in everyone.items():
            part = Judged(*(np.asarray(values)[index] for values in judged))
            drawn[name].append(accuracy_figures(part, quadrant_true[index], severity_true[index]))
    tables = {name: _table(figures) for name, figures in drawn.items()}
    theirs = tables.get(reference, {})
    return (
        {name: _told(table) for name, table in tables.items()},
        {
            name: _told({key: table[key] - theirs[key] for key in table if key in theirs})
            for name, table in tables.items()
            if name != reference
        },
    )


def _table(figures: list[dict[str, float]]) -> dict[str, Float]:
    """Metric -> (R,) its figure in each resample, NaN where there was none."""
    names = dict.fromkeys(name for one in figures for name in one if name not in COUNTS)
    return {name: np.array([one.get(name, np.nan) for one in figures]) for name in names}


def _told(table: Mapping[str, Float]) -> dict[str, Interval]:
    found = {}
    for name, values in table.items():
        finite = values[np.isfinite(values)]
        if len(finite) >= max(1, TOLD * len(values)):
            low, high = np.quantile(finite, ((1 - SHARE) / 2, (1 + SHARE) / 2))
            found[name] = Interval(float(low), float(high))
    return found
