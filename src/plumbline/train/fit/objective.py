"""The loss of one share of a step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from plumbline.model.diagnosis import Diagnosis
from plumbline.model.heads import RawAnswer
from plumbline.model.losses import build_losses
from plumbline.params import Train
from plumbline.train.data.batches import Batch
from plumbline.train.data.distributed_sampler import Scale


def objective(model: Diagnosis, answer: RawAnswer, batch: Batch, losses: Train, scale: Scale) -> Tensor:
    """Weighted sum of both tasks' losses, each a mean over the share's buildings, scaled to its part of the step."""
    weight_B = batch.weight_B if losses.balance == "weights" else None
    means = build_losses(losses)
    quadrant = losses.quadrant_weight * means.quadrant(answer, batch.quadrant_B, weight_B)
    severity = losses.severity_weight * means.severity(answer, model.standard_severity(batch.severity_B), weight_B)
    return quadrant * scale.quadrant + severity * scale.severity


def follow(answer: RawAnswer, teacher: Diagnosis, batch: Batch, scale: Scale) -> Tensor:
    """How far the answer is from the teacher's: Kullback-Leibler divergence of quadrants, mean error of severities."""
    with torch.no_grad():
        wanted = teacher.raw(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
    divergence = nn.functional.kl_div(
        answer.logits_B4.log_softmax(-1), wanted.logits_B4.log_softmax(-1), log_target=True, reduction="batchmean"
    )
    return scale.buildings * (divergence + nn.functional.l1_loss(answer.severity_B3, wanted.severity_B3))
