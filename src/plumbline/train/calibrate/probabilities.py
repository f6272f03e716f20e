"""Calibrate the probabilities of levels of strain, of right quadrants and of mechanisms.

Scales and shifts of logits that make the labels likeliest (Platt 1999; Guo et al. 2017, On calibration of modern neural
networks), with a prior that they change nothing: few labels move them little.

Shape legend: B buildings, C categories, K levels, M mechanisms.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from plumbline.core.strain import LEVEL_EDGES_PERMILLE
from plumbline.model.diagnosis import Diagnosis
from plumbline.train.calibrate.conformal import CATEGORIES, RawAnswers, category_of

PRIOR_SD = 0.5
"""Of the logarithm of a scale, and of a shift, before looking."""
STEPS = 100
"""Of LBFGS, at most; the problem is smooth, and has seven unknowns."""


def set_probabilities(model: Diagnosis, raw: RawAnswers) -> None:
    """Set scales and shifts of all probabilities but the quadrants', and the shares of the categories."""
    category_B = category_of(model, raw)
    count_C = category_B.bincount(minlength=CATEGORIES).float()
    model.get_buffer("category_share").copy_((count_C + 1) / (count_C.sum() + CATEGORIES))
    edges_K = model.standard_severity(torch.tensor(LEVEL_EDGES_PERMILLE))
    level_B = torch.bucketize(raw.standard_B, edges_K, right=True)
    category_of_level = model.get_buffer("category_of_level")

    def of_levels(scale: Tensor, shift: Tensor) -> Tensor:
        logits_BK = raw.levels_BK * scale + (category_of_level * shift).sum(1)
        return nn.functional.cross_entropy(logits_BK, level_B, reduction="sum")

    scale, shift = _fitted(of_levels, CATEGORIES)
    model.get_buffer("level_scale").copy_(scale)
    model.get_buffer("level_shift").copy_(shift)

    damaged = raw.quadrant_B >= 0
    if damaged.any():
        target_B4 = raw.accepted_B4[damaged].float()

        def of_accepted(scale: Tensor, shift: Tensor) -> Tensor:
            logits_B4 = raw.accepted_logits_B4[damaged] * scale + shift
            return nn.functional.binary_cross_entropy_with_logits(logits_B4, target_B4, reduction="sum") / 4

        scale, shift = _fitted(of_accepted, 1)
        model.get_buffer("accepted_scale").copy_(scale)
        model.get_buffer("accepted_shift").copy_(shift[0])
    known = raw.mechanism_B >= 0
    if known.any():
        wanted_B = raw.mechanism_B[known].long()

        def of_mechanisms(scale: Tensor, _: Tensor) -> Tensor:
            return nn.functional.cross_entropy(raw.mechanism_logits_BM[known] * scale, wanted_B, reduction="sum")

        model.get_buffer("mechanism_scale").copy_(_fitted(of_mechanisms, 1)[0])


def _fitted(loss_of: Callable[[Tensor, Tensor], Tensor], shifts: int) -> tuple[Tensor, Tensor]:
    """The scale, and the shifts, of the least loss."""
    unknown = torch.zeros(1 + shifts, requires_grad=True)
    optimiser = torch.optim.LBFGS([unknown], max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = loss_of(unknown[0].exp(), unknown[1:]) + (unknown / PRIOR_SD).square().sum() / 2
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with torch.enable_grad():
        optimiser.step(closure)  # type: ignore[no-untyped-call]
    found = unknown.detach()
    return found[0].exp(), found[1:]
