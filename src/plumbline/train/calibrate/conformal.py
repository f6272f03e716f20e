"""Set the severity interval's scales by split conformal prediction, for each category and
kind of building.

Each side is set alone. Few labels move all scales of a base as a whole instead.

Shape legend: B buildings, C categories, K kinds of buildings (with the design of a
regression: columns), n of one part.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from torch import Tensor, nn

from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, INTERVAL_SHARE
from plumbline.model.diagnosis import (
    KINDS,
    NEAREST,
    NOTHING,
    Diagnosis,
    deviations,
    distances,
    narrowness,
    stretched,
)

MAX_HALVES = 100.0
"""Largest change of a scale, in halves of the network's interval."""
STEPS = 40
"""Steps of bisection: to less than `ROUNDING`."""
SHARES = (INTERVAL_SHARE, 0.91, 0.92, 0.94, 0.96, 0.98, 1.0)
"""Shares that are tried for each category, until the intervals of all buildings have theirs."""
CATEGORIES = len(CATEGORY_BOUNDS_PERMILLE) + 1
MIN_CATEGORY = 30
"""Smallest number of buildings for a scale; with fewer, the quantile is nearly their largest
value."""
MIN_FOR_LENGTHS = 500
"""Smallest number of buildings for lengths; with fewer, intervals differ by chance."""
MIN_FOR_LENGTH = 100
"""Smallest number of buildings of one category for its length."""
MIN_SPREAD = 0.05
"""Smallest standard deviation of `narrowness` for which a category gets a length."""
MAX_FOR_LENGTHS = 20_000
"""Largest number of buildings for lengths, evenly from all; more add nothing."""
ROUNDING = 1e-5
"""Margin of a scale, in halves, so that the building that sets it is inside."""


class RawAnswers(NamedTuple):
    """Answers for B buildings before calibration, and their labels on the same scale."""

    logits_B4: Tensor
    severity_B3: Tensor
    quadrant_B: Tensor
    standard_B: Tensor
    kind_BK: Tensor
    """See `interval.kinds`."""
    accepted_logits_B4: Tensor
    levels_BK: Tensor
    mechanism_logits_BM: Tensor
    accepted_B4: Tensor
    mechanism_B: Tensor


class Side(NamedTuple):
    """One side of the interval, for n buildings."""

    need_n: Tensor
    """Smallest scale of its category with which a building is inside."""
    need_nC: Tensor
    """Smallest scale of each category with which the interval enters it."""
    order: list[int]
    """Categories from this side's far end on: an interval that enters one contains those after it
    on this side."""

    def select(self, rows: Tensor) -> Side:
        """Return the side for some of the buildings."""
        return Side(self.need_n[rows], self.need_nC[rows], self.order)

    def unreached(self, category: int, scale_C: Tensor) -> Tensor:
        """Return (n,) whether all categories before this one stay outside the interval."""
        former = self.order[: self.order.index(category)]
        return ~(self.need_nC[:, former] <= scale_C[former]).any(1)

    def least_scale(self, category: int, scale_C: Tensor, leave: int) -> float:
        """Return the least scale of this category that leaves out at most `leave` of its
        buildings."""
        need_n = self.need_n[self.unreached(category, scale_C)].sort(descending=True).values
        return max(float(need_n[leave]) + ROUNDING, NOTHING) if len(need_n) > leave else NOTHING

    def missed(self, category: int, scale_C: Tensor) -> int:
        """Count the buildings of this category that are left out."""
        return int((self.unreached(category, scale_C) & (self.need_n > scale_C[category])).sum())


def set_scales(model: Diagnosis, raw: RawAnswers) -> None:
    """Set the interval scales of each category and kind of building, given the model's lengths.

    Conformalised quantile regression (Romano, Patterson and Candes 2019), relative to the
    network's own interval (Sesia and Candes 2020, A comparison of some conformal quantile
    regression methods). For each category on its own (Vovk 2012, Conditional validity of
    inductive conformal predictors): one scale for all has its share of all buildings, but
    leaves out three in ten of the worst; and for each kind.

    An interval reaches from the least to the greatest severity that it enters, so it contains all
    categories between its ends. So a side is set one category at a time, from its far end on, and
    each scale depends only on buildings that no former category reaches. The misses of a category
    are shared between both sides, and the other side may use what one does not. Where a category
    has few buildings of a kind, those of all kinds count; where it has few at all, it has the scale
    that all buildings would need. All intervals together need their share, too: if they lack it,
    the share of each category grows.
    """
    for share in SHARES:
        _set_scales(model, raw, share)
        low_B1, high_B1 = model.interval(raw.severity_B3, raw.kind_BK)
        inside_B = (low_B1[:, 0] <= raw.standard_B) & (raw.standard_B <= high_B1[:, 0])
        if len(inside_B) - int(inside_B.sum()) <= misses(len(inside_B), INTERVAL_SHARE):
            return


def misses(count: int, share: float) -> int:
    """Return how many of `count` buildings may be left out, by the rank of split conformal
    prediction."""
    return count - min(count, math.ceil((count + 1) * share))


def lengths(model: Diagnosis, raw: RawAnswers) -> Tensor:
    """Return (C,) the length that is added to the interval of each category.

    Quantile regression (Koenker and Bassett 1978) of the deviation on category and the
    category's narrowness, so that narrow intervals have their share as wide ones do (Gibbs,
    Cherian and Candes 2025, Conformal prediction with conditional guarantees). A category
    with few buildings has no length. Nor has the last: it needs as many halves of a narrow
    interval as of a wide one, and X band intervals contained fewer of its buildings with
    one.
    """
    length_C, category_B = torch.zeros(CATEGORIES), category_of(model, raw)
    narrow_B1 = narrowness(raw.severity_B3)
    longer = _spread(narrow_B1[:, 0], category_B)
    if len(category_B) < MIN_FOR_LENGTHS or not longer.any():
        return length_C
    member_BC = nn.functional.one_hot(category_B, CATEGORIES).to(narrow_B1)
    design = torch.cat([narrow_B1 * member_BC[:, longer], member_BC[:, member_BC.any(0)]], dim=1)
    step = -(-len(category_B) // MAX_FOR_LENGTHS)
    values = torch.maximum(
        *deviations(raw.severity_B3, raw.standard_B, model.category_edges())
    ).clamp(min=0)
    slopes = quantile_regression(
        design[::step].double().numpy(), values[::step].double().numpy(), INTERVAL_SHARE
    )
    length_C[longer] = torch.from_numpy(slopes[: int(longer.sum())]).to(length_C)
    return length_C


def quantile_regression(
    design: NDArray[np.float64], values: NDArray[np.float64], share: float
) -> NDArray[np.float64]:
    """Return (K,) coefficients: a share `share` of `values` (B,) is below `design` (B, K) times
    them.

    By the dual linear programme (Koenker 2005, Quantile regression, section 6.2).
    """
    solution = linprog(
        -values, A_eq=design.T, b_eq=(1 - share) * design.sum(0), bounds=(0, 1), method="highs"
    )
    # The multipliers of the dual's equations are the coefficients, with the other sign as the
    # objective is negated.
    return np.asarray(-solution.eqlin.marginals)


def _set_scales(model: Diagnosis, raw: RawAnswers, share: float) -> None:
    """Set the scales so that this share of each category with enough buildings is inside."""
    category_B, kind_B = category_of(model, raw), raw.kind_BK.argmax(1)
    below, above = _sides(model, raw)
    few_C = category_B.bincount(minlength=CATEGORIES) < MIN_CATEGORY
    start_C = torch.where(few_C, _of_all(model, raw, share), NOTHING)
    for kind in range(KINDS):
        low, high = {}, {}
        for number in torch.nonzero(~few_C).flatten().tolist():
            in_category, of_kind = category_B == number, (category_B == number) & (kind_B == kind)
            rows = of_kind if of_kind.sum() >= MIN_CATEGORY else in_category
            low[number], high[number] = below.select(rows), above.select(rows)
        leave = {number: misses(len(side.need_n), share) for number, side in low.items()}
        above_C = _scales(
            high,
            start_C,
            {n: count if n == high[n].order[0] else count // 2 for n, count in leave.items()},
        )
        below_C = _scales(
            low, start_C, {n: count - high[n].missed(n, above_C) for n, count in leave.items()}
        )
        model.get_buffer("interval_below")[kind], model.get_buffer("interval_above")[kind] = (
            below_C,
            above_C,
        )


def _scales(sides: dict[int, Side], start_C: Tensor, leave: dict[int, int]) -> Tensor:
    """Return (C,) scales of one side that leave out at most `leave` buildings of each category."""
    scale_C = start_C.clone()
    for number in sorted(sides, key=lambda number: sides[number].order.index(number)):
        scale_C[number] = sides[number].least_scale(number, scale_C, leave[number])
    return scale_C


def _sides(model: Diagnosis, raw: RawAnswers) -> tuple[Side, Side]:
    """Return the sides below and above the middle, for all buildings."""
    edges_E, category_B1 = model.category_edges(), category_of(model, raw)[:, None]
    longer_BC = model.get_buffer("interval_length") * narrowness(raw.severity_B3)
    orders = list(range(CATEGORIES)), list(reversed(range(CATEGORIES)))
    sides = []
    for need_B, need_BC, order in zip(
        deviations(raw.severity_B3, raw.standard_B, edges_E),
        distances(raw.severity_B3, edges_E),
        orders,
        strict=True,
    ):
        # A truth nearer than `NEAREST` is always inside; of category 0 only the edge is.
        near_B = torch.where((category_B1[:, 0] > 0) | (order[0] > 0), NEAREST, 0.0)
        need_B = torch.where(
            need_B <= near_B, -torch.inf, need_B - longer_BC.gather(1, category_B1)[:, 0]
        )
        sides.append(
            Side(need_B, torch.where(need_BC <= 0, -torch.inf, need_BC - longer_BC), order)
        )
    return sides[0], sides[1]


def _of_all(model: Diagnosis, raw: RawAnswers, share: float) -> Tensor:
    """Return (C,) scales that this share of all buildings would need in each category."""
    longer_BC = model.get_buffer("interval_length") * narrowness(raw.severity_B3)
    need_B = torch.maximum(*deviations(raw.severity_B3, raw.standard_B, model.category_edges()))
    return (need_B[:, None] - longer_BC).sort(0, descending=True).values[
        misses(len(need_B), share)
    ] + ROUNDING


def _spread(narrow_B: Tensor, category_B: Tensor) -> Tensor:
    """Return (C,) whether a category (except the last) has enough buildings with different
    interval lengths."""
    parts = [narrow_B[category_B == number] for number in range(CATEGORIES - 1)]
    return torch.tensor(
        [len(part) >= MIN_FOR_LENGTH and bool(part.std() >= MIN_SPREAD) for part in parts] + [False]
    )


def category_of(model: Diagnosis, raw: RawAnswers) -> Tensor:
    """Return (B,) category of the true severities."""
    return torch.bucketize(raw.standard_B, model.category_edges(), right=True)


def set_or_move(model: Diagnosis, raw: RawAnswers) -> None:
    """Set the interval's scales by labels, if each category has enough of them; else shift
    the present scales."""
    if bool((category_of(model, raw).bincount(minlength=CATEGORIES) >= MIN_CATEGORY).all()):
        set_scales(model, raw)
    else:
        move_scales(model, raw)


def move_scales(model: Diagnosis, raw: RawAnswers) -> float:
    """Add to all scales the number of halves with which the interval has its share; return that
    number.

    Split conformal prediction with what a building would need added as its score
    (Angelopoulos and Bates 2023, Conformal prediction: a gentle introduction, section 2):
    one number, for which fifty labels are enough. The differences between categories and
    kinds of buildings stay as they were set on thousands.
    """
    needed_B = needed_halves(model, raw).sort(descending=True).values
    halves = float(needed_B[misses(len(needed_B), INTERVAL_SHARE)]) + ROUNDING
    for side in ("below", "above"):
        model.get_buffer(f"interval_{side}").add_(halves)
    return halves


def needed_halves(model: Diagnosis, raw: RawAnswers) -> Tensor:
    """Return (B,) halves to add to all scales for each building to be inside; negative if fewer
    suffice.

    An interval only grows with what is added, so bisection finds it.
    """
    below_BC, above_BC = model.interval_scales(raw.severity_B3, raw.kind_BK)
    edges_E, true_B1 = model.category_edges(), raw.standard_B[:, None]
    low_B1, high_B1 = torch.full_like(true_B1, -MAX_HALVES), torch.full_like(true_B1, MAX_HALVES)
    for _ in range(STEPS):
        middle_B1 = (low_B1 + high_B1) / 2
        from_B1, to_B1 = stretched(
            raw.severity_B3, below_BC + middle_B1, above_BC + middle_B1, edges_E
        )
        inside_B1 = (from_B1 <= true_B1) & (true_B1 <= to_B1)
        low_B1, high_B1 = (
            torch.where(inside_B1, low_B1, middle_B1),
            torch.where(inside_B1, middle_B1, high_B1),
        )
    return high_B1[:, 0]
