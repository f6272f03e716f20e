"""Confidence that means something: temperature and interval from a split that training has not seen."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from plumbline.console import log
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.losses import HIGH, LOW
from plumbline.prepare.shards import SequenceSet
from plumbline.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.train.batches import loader

COVERAGE = HIGH - LOW
"""Share of buildings whose true severity the interval shall hold, of each category."""
MIN_CATEGORY = 30
"""With fewer buildings than this the quantile is hardly more than their largest value."""


class RawAnswers(NamedTuple):
    """What a model says of B buildings before calibration, and their labels on the same scale."""

    logits_B4: Tensor
    severity_B3: Tensor
    quadrant_B: Tensor
    standard_B: Tensor


def calibrate(model: Diagnosis, sequences: SequenceSet) -> None:
    """Set the model's temperature and interval from the calibrate split."""
    raw = raw_answers(model, sequences)
    model.get_buffer("temperature").fill_(best_temperature(raw.logits_B4, raw.quadrant_B))
    edges = model.standard_severity(torch.tensor(CATEGORY_BOUNDS_PERMILLE).to(raw.standard_B))
    model.get_buffer("interval_stretch").copy_(interval_stretches(raw.severity_B3, raw.standard_B, edges))
    stretches = " ".join(f"{value:+.2f}" for value in model.get_buffer("interval_stretch").tolist())
    log.info("temperature %.2f, interval stretches of the categories %s", model.temperature, stretches)


def raw_answers(model: Diagnosis, sequences: SequenceSet) -> RawAnswers:
    """The answers to all buildings, by length."""
    model.eval()
    parts = []
    with torch.inference_mode():
        for batch in loader(sequences, 512):
            answer = model.raw(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
            standard = model.standard_severity(batch.severity_B)
            parts.append(RawAnswers(answer.logits_B4, answer.severity_B3, batch.quadrant_B, standard))
    return RawAnswers(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))


def best_temperature(logits_B4: Tensor, quadrant_B: Tensor) -> float:
    """The temperature with the smallest cross-entropy (Guo et al. 2017, On calibration of modern neural networks)."""
    defined = quadrant_B >= 0
    if not defined.any():
        return 1.0
    # One number in a known range: a fine scan cannot fail to converge.
    candidates = torch.logspace(-1, 1, 401, base=10.0)
    losses = [nn.functional.cross_entropy(logits_B4[defined] / t, quadrant_B[defined]) for t in candidates]
    return float(candidates[int(torch.stack(losses).argmin())])


def interval_stretches(severity_B3: Tensor, standard_B: Tensor, edges: Tensor) -> Tensor:
    """Conformalised quantile regression (Romano, Patterson and Candes 2019): what must be added to both ends.

    For each category on its own (Vovk 2012, Conditional validity of inductive conformal predictors): one length for all
    holds its share of all buildings, but leaves out four in ten of the worst. A category with few buildings takes the
    length of all.
    """
    outside_B = torch.maximum(severity_B3[:, 0] - standard_B, standard_B - severity_B3[:, 2])
    category_B = torch.bucketize(standard_B, edges, right=True)
    parts = [outside_B[category_B == number] for number in range(len(edges) + 1)]
    return torch.stack([_upper(part if len(part) >= MIN_CATEGORY else outside_B) for part in parts])


def _upper(outside_B: Tensor) -> Tensor:
    count = len(outside_B)
    rank = min(count, int(torch.ceil(torch.tensor((count + 1) * COVERAGE))))
    return outside_B.sort().values[rank - 1]
