"""Calibrate probabilities by temperatures.

Scales and shifts of logits that make the labels likeliest (Platt 1999; Guo et al. 2017, On
calibration of modern neural networks), for each kind of building, with a prior that they
change nothing: few labels move them little.

Shape legend: B buildings, C categories, K levels, M mechanisms.

Shape legend: B buildings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from plumbline.core.console import log, warn
from plumbline.core.strain import INTERVAL_SHARE, LEVEL_EDGES_PERMILLE
from plumbline.model.diagnosis import KINDS, Diagnosis, kinds
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.calibrate.conformal import (
    CATEGORIES,
    ROUNDING,
    RawAnswers,
    category_of,
    lengths,
    set_scales,
)
from plumbline.train.data.batches import loader

PRIOR_SD, KIND_SD = 0.5, 0.2
"""Prior standard deviations of the logarithm of a scale and of a shift: for all kinds, and of one
kind about all."""
STEPS = 100
"""Largest number of steps of LBFGS; the problem is smooth, and has seven unknowns."""


def set_probabilities(model: Diagnosis, raw: RawAnswers) -> None:
    """Set scales and shifts of all probabilities, and the shares of the categories."""
    count_C = category_of(model, raw).bincount(minlength=CATEGORIES).float()
    model.get_buffer("category_share").copy_((count_C + 1) / (count_C.sum() + CATEGORIES))
    level_B = torch.bucketize(
        raw.standard_B, model.standard_severity(torch.tensor(LEVEL_EDGES_PERMILLE)), right=True
    )
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
        scaled_B4 = raw.accepted_logits_B4[rows] * scale + shift
        return (
            functional.binary_cross_entropy_with_logits(scaled_B4, target_B4[rows], reduction="sum")
            / 4
        )

    def of_mechanisms(rows: Tensor, scale: Tensor, _: Tensor) -> Tensor:
        logits_BM = raw.mechanism_logits_BM[rows] * scale
        return functional.cross_entropy(logits_BM, raw.mechanism_B[rows].long(), reduction="sum")

    every, damaged = torch.ones_like(level_B, dtype=torch.bool), raw.quadrant_B >= 0
    _set(model, "level", of_levels, every, raw, shifts=CATEGORIES)
    _set(model, "quadrant", of_quadrants, damaged, raw, shifts=0)
    _set(model, "accepted", of_accepted, damaged, raw, shifts=1)
    with_mechanism = torch.nonzero(raw.mechanism_B >= 0)[:, 0]
    if len(with_mechanism):
        fitted = _fit_scale(partial(of_mechanisms, with_mechanism), torch.zeros(1), PRIOR_SD)
        model.get_buffer("mechanism_scale").copy_(fitted[0].exp())


Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Rows, scale and shifts -> sum of the losses of these buildings."""


def _set(
    model: Diagnosis, name: str, loss_of: Loss, inside: Tensor, raw: RawAnswers, *, shifts: int
) -> None:
    """Set scale and shifts of each kind of building; those of rare kinds are drawn to the
    fit over all."""
    rows = torch.nonzero(inside)[:, 0]
    if not len(rows):
        return
    of_all = _fit_scale(partial(loss_of, rows), torch.zeros(1 + shifts), PRIOR_SD)
    kind_B = raw.kind_BK.argmax(1)
    for kind in range(KINDS):
        of_kind = rows[kind_B[rows] == kind]
        fitted = _fit_scale(partial(loss_of, of_kind), of_all, KIND_SD) if len(of_kind) else of_all
        model.get_buffer(f"{name}_scale")[kind] = fitted[0].exp()
        if shifts:
            model.get_buffer(f"{name}_shift")[kind] = fitted[1:] if shifts > 1 else fitted[1]


def _fit_scale(loss_of: Callable[[Tensor, Tensor], Tensor], centre: Tensor, sd: float) -> Tensor:
    """Return the logarithm of the scale, and the shifts, of the least loss; the prior is
    normal around `centre`."""
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


FEW_BUILDINGS = 40
"""Number of buildings below which the share inside the interval varies by 5 points and more."""
COOLEST, HOTTEST = 0.1, 10.0
"""Bounds of the temperatures that are tried."""
MAX_BEYOND = 0.05
"""Share of the buildings to calibrate on that may be damaged worse than any answer: half of
what an interval misses."""
MORE = "Give more labelled buildings, or a larger prepare.split.calibrate."


def warn_if_few(count: int) -> None:
    """Warn if too few buildings calibrate the interval for its share to be certain."""
    if count < FEW_BUILDINGS:
        # Nearly that of the beta distribution of the share in split conformal prediction (Vovk
        # 2012).
        spread = math.sqrt(INTERVAL_SHARE * (1 - INTERVAL_SHARE) / (count + 2))
        warn(
            "%d buildings to calibrate on: the interval covers %.0f %% of other buildings, give "
            "or take %.0f. %s",
            count,
            100 * INTERVAL_SHARE,
            100 * spread,
            MORE,
            key="calibration.few_buildings",
        )


def warn_if_beyond(beyond: int, count: int, limit_permille: float) -> None:
    """Warn if more buildings exceed the largest possible answer than the interval may miss."""
    if beyond > MAX_BEYOND * count:
        warn(
            "%d of %d buildings to calibrate on have more than %.2f permille, the most of any "
            "building trained on. No "
            "answer goes beyond that, so that intervals cover less than %.0f %% where damage is "
            "severe",
            beyond,
            count,
            limit_permille,
            100 * INTERVAL_SHARE,
            key="calibration.beyond_training",
        )


def warn_if_bounded(temperature: float, defined: int) -> None:
    """Warn if the quadrant probabilities are not calibrated; `defined`: number of buildings
    with a quadrant."""
    if not defined:
        warn(
            "temperature: none of the buildings to calibrate on has a quadrant (category 1 and "
            "more), so that it stays "
            "1: the quadrants' probabilities are the network's own, and the interval is that of "
            "undamaged buildings",
            key="temperature.no_quadrant",
        )
    elif not COOLEST * 1.001 < temperature < HOTTEST / 1.001:
        warn(
            "temperature: the best of %g to %g is at the end, %.2f, for %d buildings with a "
            "quadrant: their answers "
            "are %s, and the quadrants' probabilities not calibrated",
            COOLEST,
            HOTTEST,
            temperature,
            defined,
            "all correct" if temperature < 1 else "no better than chance",
            key="temperature.at_bound",
        )


def calibrate(model: Diagnosis, sequences: SequenceSet) -> None:
    """Set the model's temperature and interval from the calibrate split."""
    raw = raw_answers(model, sequences)
    warn_if_few(len(raw.standard_B))
    model.get_buffer("temperature").fill_(
        best_temperature(raw.logits_B4, raw.quadrant_B, raw.accepted_B4)
    )
    set_probabilities(model, raw)
    model.get_buffer("interval_length").copy_(lengths(model, raw))
    set_scales(model, raw)
    low_B1, high_B1 = model.interval(raw.severity_B3, raw.kind_BK)
    width = float((model.permille(high_B1) - model.permille(low_B1)).mean())
    log.info("temperature %.2f, intervals of %.2f permille on average", model.temperature, width)
    limit = model.get_buffer("severity_limit")
    n_beyond = int((raw.standard_B > model.standard_severity(limit) + ROUNDING).sum())
    warn_if_beyond(n_beyond, len(raw.standard_B), float(limit))
    warn_if_bounded(float(model.get_buffer("temperature")), int((raw.quadrant_B >= 0).sum()))


def raw_answers(model: Diagnosis, sequences: SequenceSet) -> RawAnswers:
    """Return the answers to all buildings, by length."""
    model.eval()
    parts = []
    with torch.inference_mode():
        for batch in loader(sequences, 512):
            answer = model.raw(
                batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL
            )
            standard = model.standard_severity(batch.severity_B)
            quadrant_and_severity = (
                answer.logits_B4,
                answer.severity_B3,
                batch.quadrant_B,
                standard,
                kinds(batch.geometry_BF),
            )
            probabilities = (answer.accepted_B4, answer.levels_BK, answer.mechanism_BM)
            parts.append(
                RawAnswers(
                    *quadrant_and_severity, *probabilities, batch.accepted_B4, batch.mechanism_B
                )
            )
    return RawAnswers(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))


def best_temperature(logits_B4: Tensor, quadrant_B: Tensor, accepted_B4: Tensor) -> float:
    """Return the temperature of least cross-entropy (Guo et al. 2017, On calibration of
    modern neural networks)."""
    defined = quadrant_B >= 0
    if not defined.any():
        return 1.0
    # One number in a known range: a fine scan cannot fail to converge.
    candidates = torch.logspace(math.log10(COOLEST), math.log10(HOTTEST), 401)
    target_B4 = accepted_B4[defined].to(logits_B4)
    target_B4 = target_B4 / target_B4.sum(1, keepdim=True)
    losses = [nn.functional.cross_entropy(logits_B4[defined] / t, target_B4) for t in candidates]
    return float(candidates[int(torch.stack(losses).argmin())])
