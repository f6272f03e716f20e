"""Calibrate a model on a split that training has not seen, and warn where its labels are too few.

Shape legend: B buildings.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from plumbline.core.console import log
from plumbline.core.strain import INTERVAL_SHARE
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.interval import kinds
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.calibrate.conformal import ROUNDING, RawAnswers, lengths, set_scales
from plumbline.train.calibrate.probabilities import set_probabilities
from plumbline.train.data.batches import loader
from plumbline.train.data.splits import LEAST_BUILDINGS

FEW_BUILDINGS = 40
"""With fewer, what the interval holds of others varies by 5 points and more."""
COOLEST, HOTTEST = 0.1, 10.0
"""Temperatures that are looked at."""
MOST_BEYOND = 0.05
"""Share of the buildings to calibrate on that may be damaged worse than any answer: half of what an interval misses."""
MORE = "Give more labelled buildings, or a larger prepare.split.calibrate."


def say_if_few(count: int) -> None:
    """Warn if too few buildings calibrate the interval: it then misses 90 %, or its share is uncertain."""
    if count < LEAST_BUILDINGS:
        log.warning(
            "%d buildings to calibrate on: of fewer than %d the interval is their largest error, which holds %.0f %% "
            "of others and not %.0f. %s",
            count,
            LEAST_BUILDINGS,
            100 * count / (count + 1),
            100 * INTERVAL_SHARE,
            MORE,
        )
    elif count < FEW_BUILDINGS:
        # Of the beta distribution that split conformal prediction holds its share with (Vovk 2012), as good as.
        spread = math.sqrt(INTERVAL_SHARE * (1 - INTERVAL_SHARE) / (count + 2))
        log.warning(
            "%d buildings to calibrate on: what the interval holds of others is %.0f %% give or take %.0f. %s",
            count,
            100 * INTERVAL_SHARE,
            100 * spread,
            MORE,
        )


def say_if_beyond(beyond: int, count: int, limit_permille: float) -> None:
    """Warn if more of `count` buildings lie beyond the largest possible answer than the interval may miss."""
    if beyond > MOST_BEYOND * count:
        log.warning(
            "%d of %d buildings to calibrate on have more than %.2f permille, the most of any building trained on. No "
            "answer goes beyond that, so that intervals hold less than %.0f %% where damage is severe",
            beyond,
            count,
            limit_permille,
            100 * INTERVAL_SHARE,
        )


def say_if_bounded(temperature: float, defined: int) -> None:
    """Warn if the quadrant probabilities are not calibrated; `defined`: number of buildings with a quadrant."""
    if not defined:
        log.warning(
            "temperature: none of the buildings to calibrate on has a quadrant (category 1 and more), so that it stays "
            "1: the quadrants' probabilities are the network's own, and the interval is that of undamaged buildings"
        )
    elif not COOLEST * 1.001 < temperature < HOTTEST / 1.001:
        log.warning(
            "temperature: the best of %g to %g is at the end, %.2f, for %d buildings with a quadrant: their answers "
            "are %s, and the quadrants' probabilities not calibrated",
            COOLEST,
            HOTTEST,
            temperature,
            defined,
            "all right" if temperature < 1 else "no better than chance",
        )


def calibrate(model: Diagnosis, sequences: SequenceSet) -> None:
    """Set the model's temperature and interval from the calibrate split."""
    raw = raw_answers(model, sequences)
    say_if_few(len(raw.standard_B))
    model.get_buffer("temperature").fill_(best_temperature(raw.logits_B4, raw.quadrant_B, raw.accepted_B4))
    set_probabilities(model, raw)
    model.get_buffer("interval_length").copy_(lengths(model, raw))
    set_scales(model, raw)
    low_B1, high_B1 = model.interval(raw.severity_B3, raw.kind_BK)
    width = float((model.permille(high_B1) - model.permille(low_B1)).mean())
    log.info("temperature %.2f, intervals of %.2f permille on average", model.temperature, width)
    limit = model.get_buffer("severity_limit")
    beyond = int((raw.standard_B > model.standard_severity(limit) + ROUNDING).sum())
    say_if_beyond(beyond, len(raw.standard_B), float(limit))
    say_if_bounded(float(model.get_buffer("temperature")), int((raw.quadrant_B >= 0).sum()))


def raw_answers(model: Diagnosis, sequences: SequenceSet) -> RawAnswers:
    """Return the answers to all buildings, by length."""
    model.eval()
    parts = []
    with torch.inference_mode():
        for batch in loader(sequences, 512):
            answer = model.raw(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
            standard = model.standard_severity(batch.severity_B)
            kind_BK = kinds(batch.geometry_BF)
            where = (answer.logits_B4, answer.severity_B3, batch.quadrant_B, standard, kind_BK)
            probabilities = (answer.accepted_B4, answer.levels_BK, answer.mechanism_BM)
            parts.append(RawAnswers(*where, *probabilities, batch.accepted_B4, batch.mechanism_B))
    return RawAnswers(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))


def best_temperature(logits_B4: Tensor, quadrant_B: Tensor, accepted_B4: Tensor) -> float:
    """Return the temperature of least cross-entropy (Guo et al. 2017, On calibration of modern neural networks)."""
    defined = quadrant_B >= 0
    if not defined.any():
        return 1.0
    # One number in a known range: a fine scan cannot fail to converge.
    candidates = torch.logspace(math.log10(COOLEST), math.log10(HOTTEST), 401)
    target_B4 = accepted_B4[defined].to(logits_B4)
    target_B4 = target_B4 / target_B4.sum(1, keepdim=True)
    losses = [nn.functional.cross_entropy(logits_B4[defined] / t, target_B4) for t in candidates]
    return float(candidates[int(torch.stack(losses).argmin())])
