"""Confidence that means something: temperature and interval from a split that training has not seen.

Shape legend: B buildings, C categories, K bounds between kinds of buildings (with the design of a regression: columns).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from torch import Tensor, nn

from plumbline.console import log
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.interval import (
    AREA_BOUNDS_M2,
    INTERVAL_SHARE,
    POINT_BOUNDS,
    deviation,
    narrowness,
    passed_bounds,
)
from plumbline.prepare.shards import SequenceSet
from plumbline.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.train.batches import loader
from plumbline.train.doubts import COOLEST, HOTTEST, say_if_bounded, say_if_few

CATEGORY_SHARES = (0.885, 0.89, 0.895, INTERVAL_SHARE)
"""The least is still well within 0.88 to 0.92."""
CATEGORIES = len(CATEGORY_BOUNDS_PERMILLE) + 1
MIN_CATEGORY = 30
"""With fewer buildings than this the quantile is hardly more than their largest value."""
MIN_FOR_STEPS = 500
"""With fewer buildings, what kinds of buildings seem to differ by is chance."""
MIN_FOR_LENGTH = 100
"""With fewer buildings of a category, what its narrow intervals seem to differ by from its wide ones is chance."""
LEAST_SPREAD = 0.05
"""Standard deviation of `narrowness`; where it is less in a category, narrow ones cannot be told from wide ones."""
MOST_FOR_STEPS = 20_000
"""More say nothing new; evenly taken from all."""


class RawAnswers(NamedTuple):
    """What a model says of B buildings before calibration, and their labels on the same scale."""

    logits_B4: Tensor
    severity_B3: Tensor
    quadrant_B: Tensor
    standard_B: Tensor
    passed_BK: Tensor
    """See `interval.passed_bounds`."""


def calibrate(model: Diagnosis, sequences: SequenceSet) -> None:
    """Set the model's temperature and interval from the calibrate split."""
    raw = raw_answers(model, sequences)
    say_if_few(len(raw.standard_B))
    model.get_buffer("temperature").fill_(best_temperature(raw.logits_B4, raw.quadrant_B))
    steps_K, length_C = steps_and_lengths(raw, _category(model, raw))
    model.get_buffer("interval_steps").copy_(steps_K)
    model.get_buffer("interval_length").copy_(length_C)
    set_scales(model, raw)
    found = (
        f"{n} {' '.join(f'{v:.2f}' for v in model.get_buffer(f'interval_{n}').tolist())}"
        for n in ("scale", "length", "steps")
    )
    log.info("temperature %.2f, interval: %s", model.temperature, ", ".join(found))
    say_if_bounded(float(model.get_buffer("temperature")), int((raw.quadrant_B >= 0).sum()))


def set_scales(model: Diagnosis, raw: RawAnswers) -> None:
    """Set what the interval is scaled by in each category, given the model's steps between kinds and its lengths.

    Joined, the categories' parts hold more buildings than each holds of its own category. So each is asked for the
    least of `CATEGORY_SHARES` with which the interval holds `INTERVAL_SHARE` of all.
    """
    model.get_buffer("interval_stretch").zero_()
    model.get_buffer("interval_scale").zero_()  # what is left is given whatever the scale
    given_BC = model.interval_scale_of(raw.passed_BK, narrowness(raw.severity_B3))
    excess_BC, category_B = deviation(raw.severity_B3, raw.standard_B)[:, None] - given_BC, _category(model, raw)
    for share in CATEGORY_SHARES:
        model.get_buffer("interval_scale").copy_(category_quantiles(excess_BC, category_B, share))
        low_B1, high_B1 = model.interval(raw.severity_B3, raw.passed_BK)
        held_B = (low_B1[:, 0] <= raw.standard_B) & (raw.standard_B <= high_B1[:, 0])
        # The rank of split conformal prediction: of n others and a new one, all in any order.
        if int(held_B.sum()) >= min(len(held_B), math.ceil((len(held_B) + 1) * INTERVAL_SHARE)):
            return


def raw_answers(model: Diagnosis, sequences: SequenceSet) -> RawAnswers:
    """The answers to all buildings, by length."""
    model.eval()
    parts = []
    with torch.inference_mode():
        for batch in loader(sequences, 512):
            answer = model.raw(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
            standard = model.standard_severity(batch.severity_B)
            passed = passed_bounds(batch.geometry_BF)
            parts.append(RawAnswers(answer.logits_B4, answer.severity_B3, batch.quadrant_B, standard, passed))
    return RawAnswers(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))


def best_temperature(logits_B4: Tensor, quadrant_B: Tensor) -> float:
    """The temperature with the smallest cross-entropy (Guo et al. 2017, On calibration of modern neural networks)."""
    defined = quadrant_B >= 0
    if not defined.any():
        return 1.0
    # One number in a known range: a fine scan cannot fail to converge.
    candidates = torch.logspace(math.log10(COOLEST), math.log10(HOTTEST), 401)
    losses = [nn.functional.cross_entropy(logits_B4[defined] / t, quadrant_B[defined]) for t in candidates]
    return float(candidates[int(torch.stack(losses).argmin())])


def category_quantiles(excess_BC: Tensor, category_B: Tensor, share: float) -> Tensor:
    """(C,) what a `share` of each category stay below: split conformal prediction, with its rank for finite samples.

    Conformalised quantile regression (Romano, Patterson and Candes 2019), relative to the network's own interval (Sesia
    and Candes 2020, A comparison of some conformal quantile regression methods). For each category on its own (Vovk
    2012, Conditional validity of inductive conformal predictors): one for all holds its share of all buildings, but
    leaves out three in ten of the worst. A category with few buildings takes what all would need of it.

    Args:
        excess_BC: deviation beyond what each category's steps and length hold. category_B: the true ones.
    """
    own = [category_B == number for number in range(CATEGORIES)]
    return torch.stack(
        [_upper(excess_BC[b if b.sum() >= MIN_CATEGORY else slice(None), c], share) for c, b in enumerate(own)]
    )


def steps_and_lengths(raw: RawAnswers, category_B: Tensor) -> tuple[Tensor, Tensor]:
    """(K,) what the scale changes by at each bound between kinds of buildings, and (C,) length that is added.

    Quantile regression (Koenker and Bassett 1978) of the deviation on category, kind, and the category's narrowness:
    every kind holds its share too (Gibbs, Cherian and Candes 2025, Conformal prediction with conditional guarantees). A
    length counts most where the interval is narrow: there, categories in between need more halves than where it is so
    wide that others reach across them, and sound buildings fewer. A bound with few buildings on a side is no step, a
    category with few has no length. Nor has the last: it needs as many halves of a narrow interval as of a wide one,
    and X band buildings of it were held less with one.
    """
    narrow_B1 = narrowness(raw.severity_B3)
    steps_K, length_C = torch.zeros(raw.passed_BK.shape[1]), torch.zeros(CATEGORIES)
    if len(category_B) < MIN_FOR_STEPS:
        return steps_K, length_C
    step, longer = _told(raw.passed_BK), _spread(narrow_B1[:, 0], category_B)
    if not (step.any() or longer.any()):
        return steps_K, length_C
    own_BC = nn.functional.one_hot(category_B, CATEGORIES).to(raw.passed_BK)
    columns = [raw.passed_BK[:, step], narrow_B1 * own_BC[:, longer], own_BC[:, own_BC.any(0)]]
    every = -(-len(category_B) // MOST_FOR_STEPS)
    design, values = torch.cat(columns, dim=1)[::every], deviation(raw.severity_B3, raw.standard_B)[::every]
    found = torch.from_numpy(quantile_regression(design.double().numpy(), values.double().numpy(), INTERVAL_SHARE))
    steps_K[step], length_C[longer] = found[: step.sum() + longer.sum()].to(steps_K).tensor_split([int(step.sum())])
    return steps_K, length_C


def quantile_regression(design: NDArray[np.float64], values: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """(K,) coefficients: of the (B,) `values`, `share` lie below `design` (B, K) times them.

    By the dual linear programme (Koenker 2005, Quantile regression, section 6.2).
    """
    found = linprog(-values, A_eq=design.T, b_eq=(1 - share) * design.sum(0), bounds=(0, 1), method="highs")
    return np.asarray(-found.eqlin.marginals)


def _told(passed_BK: Tensor) -> Tensor:
    """(K,) bounds with enough buildings in the kind above, and in all below it."""
    told, start = [], 0
    for bounds in (POINT_BOUNDS, AREA_BOUNDS_M2):
        kind_B = passed_BK[:, start : start + len(bounds)].sum(1).long()
        count = kind_B.bincount(minlength=len(bounds) + 1)
        told.append((count[1:] >= MIN_CATEGORY) & (count.cumsum(0)[:-1] >= MIN_CATEGORY))
        start += len(bounds)
    return torch.cat(told)


def _spread(narrow_B: Tensor, category_B: Tensor) -> Tensor:
    """(C,) categories, but the last, with enough buildings, whose intervals differ in length."""
    parts = [narrow_B[category_B == number] for number in range(CATEGORIES - 1)]
    return torch.tensor([len(part) >= MIN_FOR_LENGTH and bool(part.std() >= LEAST_SPREAD) for part in parts] + [False])


def _category(model: Diagnosis, raw: RawAnswers) -> Tensor:
    """(B,) of the true severities."""
    edges = model.standard_severity(torch.tensor(CATEGORY_BOUNDS_PERMILLE).to(raw.standard_B))
    return torch.bucketize(raw.standard_B, edges, right=True)


def _upper(excess_B: Tensor, share: float) -> Tensor:
    count = len(excess_B)
    rank = min(count, math.ceil((count + 1) * share))
    return excess_B.sort().values[rank - 1]
