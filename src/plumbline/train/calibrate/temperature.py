"""Confidence that means something: temperature and interval from a split that training has not seen.

Shape legend: B buildings.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from plumbline.core.console import log
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.interval import kinds
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.calibrate.conformal import ROUNDING, RawAnswers, lengths, set_scales
from plumbline.train.calibrate.doubts import COOLEST, HOTTEST, say_if_beyond, say_if_bounded, say_if_few
from plumbline.train.data.batches import loader


def calibrate(model: Diagnosis, sequences: SequenceSet) -> None:
    """Set the model's temperature and interval from the calibrate split."""
    raw = raw_answers(model, sequences)
    say_if_few(len(raw.standard_B))
    model.get_buffer("temperature").fill_(best_temperature(raw.logits_B4, raw.quadrant_B))
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
    """The answers to all buildings, by length."""
    model.eval()
    parts = []
    with torch.inference_mode():
        for batch in loader(sequences, 512):
            answer = model.raw(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
            standard = model.standard_severity(batch.severity_B)
            kind_BK = kinds(batch.geometry_BF)
            parts.append(RawAnswers(answer.logits_B4, answer.severity_B3, batch.quadrant_B, standard, kind_BK))
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
