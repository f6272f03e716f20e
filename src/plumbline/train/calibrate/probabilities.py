"""Calibrate the probabilities of quadrants, right quadrants, levels of strain and mechanisms.

Scales and shifts of logits that make the labels likeliest (Platt 1999; Guo et al. 2017, On calibration of modern neural
networks), for each kind of building, with a prior that they change nothing: few labels move them little.

Shape legend: B buildings, C categories, K levels, M mechanisms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from plumbline.core.strain import LEVEL_EDGES_PERMILLE
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.interval import KINDS
from plumbline.train.calibrate.conformal import CATEGORIES, RawAnswers, category_of

PRIOR_SD, KIND_SD = 0.5, 0.2
"""Of the logarithm of a scale, and of a shift, before looking; and of those of one kind about those of all."""
STEPS = 100
"""Of LBFGS, at most; the problem is smooth, and has seven unknowns."""


def set_probabilities(model: Diagnosis, raw: RawAnswers) -> None:
    """Set scales and shifts of all probabilities, and the shares of the categories."""
    category_B = category_of(model, raw)
    count_C = category_B.bincount(minlength=CATEGORIES).float()
    model.get_buffer("category_share").copy_((count_C + 1) / (count_C.sum() + CATEGORIES))
    level_B = torch.bucketize(raw.standard_B, model.standard_severity(torch.tensor(LEVEL_EDGES_PERMILLE)), right=True)
    category_of_level = model.get_buffer("category_of_level")
    logits_B4 = raw.logits_B4 / model.get_buffer("temperature")
    target_B4 = raw.accepted_B4.float()
    share_B4 = target_B4 / target_B4.sum(1, keepdim=True).clamp(min=1)

    def of_levels(rows: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        logits_BK = raw.levels_BK[rows] * scale + (category_of_level * shift).sum(1)
        return functional.cross_entropy(logits_BK, level_B[rows], reduction="sum")

    def of_quadrants(rows: Tensor, scale: Tensor, _: Tensor) -> Tensor:
        return functional.cross_entropy(logits_B4[rows] * scale, share_B4[rows], reduction="sum")

    def of_accepted(rows: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        own_B4 = raw.accepted_logits_B4[rows] * scale + shift
        return functional.binary_cross_entropy_with_logits(own_B4, target_B4[rows], reduction="sum") / 4

    def of_mechanisms(rows: Tensor, scale: Tensor, _: Tensor) -> Tensor:
        logits_BM = raw.mechanism_logits_BM[rows] * scale
        return functional.cross_entropy(logits_BM, raw.mechanism_B[rows].long(), reduction="sum")

    every, damaged = torch.ones_like(level_B, dtype=torch.bool), raw.quadrant_B >= 0
    _set(model, "level", of_levels, every, raw, CATEGORIES)
    _set(model, "quadrant", of_quadrants, damaged, raw, 0)
    _set(model, "accepted", of_accepted, damaged, raw, 1)
    known = torch.nonzero(raw.mechanism_B >= 0)[:, 0]
    if len(known):
        found = _fitted(partial(of_mechanisms, known), torch.zeros(1), PRIOR_SD)
        model.get_buffer("mechanism_scale").copy_(found[0].exp())


Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Rows, scale and shifts -> sum of the losses of these buildings."""


def _set(model: Diagnosis, name: str, loss_of: Loss, inside: Tensor, raw: RawAnswers, shifts: int) -> None:
    """Set scale and shifts of each kind of building; those of rare kinds are drawn to the fit over all."""
    rows = torch.nonzero(inside)[:, 0]
    if not len(rows):
        return
    of_all = _fitted(partial(loss_of, rows), torch.zeros(1 + shifts), PRIOR_SD)
    kind_B = raw.kind_BK.argmax(1)
    for kind in range(KINDS):
        own = rows[kind_B[rows] == kind]
        found = _fitted(partial(loss_of, own), of_all, KIND_SD) if len(own) else of_all
        model.get_buffer(f"{name}_scale")[kind] = found[0].exp()
        if shifts:
            model.get_buffer(f"{name}_shift")[kind] = found[1:] if shifts > 1 else found[1]


def _fitted(loss_of: Callable[[Tensor, Tensor], Tensor], centre: Tensor, sd: float) -> Tensor:
    """Return the logarithm of the scale, and the shifts, of the least loss; the prior is normal around `centre`."""
    unknown = centre.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([unknown], max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = loss_of(unknown[0].exp(), unknown[1:]) + ((unknown - centre) / sd).square().sum() / 2
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with torch.enable_grad():
        optimiser.step(closure)  # type: ignore[no-untyped-call]
    return unknown.detach()
