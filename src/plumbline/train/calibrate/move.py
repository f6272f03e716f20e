"""The severity interval of a base, longer or shorter as a whole: what few labels can say of it.

Shape legend: B buildings, C categories.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plumbline.core.strain import INTERVAL_SHARE
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.interval import stretched
from plumbline.train.calibrate.conformal import (
    CATEGORIES,
    MIN_CATEGORY,
    ROUNDING,
    RawAnswers,
    category_of,
    misses,
    set_scales,
)

MOST_HALVES = 100.0
"""Of the network's interval; no more is added or taken away."""
STEPS = 40
"""Of bisection: to less than `ROUNDING`."""


def set_or_move(model: Diagnosis, raw: RawAnswers) -> None:
    """Set the interval's scales by labels, where each category has enough of them; else move those that it has."""
    if bool((category_of(model, raw).bincount(minlength=CATEGORIES) >= MIN_CATEGORY).all()):
        set_scales(model, raw)
    else:
        move_scales(model, raw)


def move_scales(model: Diagnosis, raw: RawAnswers) -> float:
    """Add to all scales as many halves as it takes for the interval to hold its share; return that number.

    Split conformal prediction with what a building would need added as its score (Angelopoulos and Bates 2023,
    Conformal prediction: a gentle introduction, section 2): one number, which fifty labels can tell. How categories and
    kinds of buildings differ stays as it was set on thousands.
    """
    needed_B = needed(model, raw).sort(descending=True).values
    halves = float(needed_B[misses(len(needed_B), INTERVAL_SHARE)]) + ROUNDING
    for side in ("below", "above"):
        model.get_buffer(f"interval_{side}").add_(halves)
    return halves


def needed(model: Diagnosis, raw: RawAnswers) -> Tensor:
    """(B,) halves that must be added to all scales for each building to lie inside; negative where there are too many.

    An interval only grows with what is added, so bisection finds it.
    """
    below_BC, above_BC = model.interval_scales(raw.severity_B3, raw.kind_BK)
    edges_E, true_B1 = model.category_edges(), raw.standard_B[:, None]
    low_B1, high_B1 = torch.full_like(true_B1, -MOST_HALVES), torch.full_like(true_B1, MOST_HALVES)
    for _ in range(STEPS):
        middle_B1 = (low_B1 + high_B1) / 2
        from_B1, to_B1 = stretched(raw.severity_B3, below_BC + middle_B1, above_BC + middle_B1, edges_E)
        inside_B1 = (from_B1 <= true_B1) & (true_B1 <= to_B1)
        low_B1, high_B1 = torch.where(inside_B1, low_B1, middle_B1), torch.where(inside_B1, middle_B1, high_B1)
    return high_B1[:, 0]
