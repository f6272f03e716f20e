"""Measure the importance of channels, by one of several plug-ins: pruning keeps the most important.

The scores are those of torch-pruning; all layers that lose a channel together have a say in its score. `taylor` is the
sum of |slope times weight| over a channel's weights, which bounds what the losses rise by, to first order, where they
are 0 (after Molchanov et al. 2019, equation 8, which squares each), `magnitude` the norm of the weights (Li et al.
2017, Pruning filters).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_pruning.pruner import importance

from plumbline.model.diagnosis import Diagnosis
from plumbline.model.losses import build_losses
from plumbline.params import Train
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.batches import Batch, loader

Slopes = dict[str, Tensor]
"""Parameter's name -> the losses' gradient."""
BATCH = 128


class NormScale(importance.Importance):  # type: ignore[misc]
    """Scale of the normalisation after a channel (Liu et al. 2017, Network slimming), here of layers.

    Channels that no normalisation follows are ranked by `magnitude`.
    """

    def __init__(self) -> None:
        self.scale = importance.GroupMagnitudeImportance(p=1, target_types=[nn.LayerNorm])
        self.magnitude = importance.GroupMagnitudeImportance(p=2)

    def __call__(self, group: Any) -> Any:
        """Return (C,) importance of the group's channels."""
        scale = self.scale(group)
        return self.magnitude(group) if scale is None else scale


def slopes(model: Diagnosis, data: SequenceSet, losses: Train, batches: int, seed: int) -> Slopes:
    """Return the losses' gradients, summed over `batches` batches of training buildings; the model keeps none.

    Args:
        model: in evaluation mode.
        data: training buildings.
        losses: which losses, and their weights.
        batches: batches of 128 buildings.
        seed: of their choice.
    """
    model.zero_grad()
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    model.requires_grad_(True)
    for number, batch in enumerate(loader(data, BATCH, seed)):
        if number == batches:
            break
        loss_of(model, batch, losses).backward()  # type: ignore[no-untyped-call]
    found = {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in model.named_parameters()
    }
    model.zero_grad()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    return found


def loss_of(model: Diagnosis, batch: Batch, losses: Train) -> Tensor:
    """Return the training loss of a batch of buildings, without turning, perturbing or weighting them."""
    chosen = build_losses(losses)
    answer = model.raw(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
    return chosen.where(answer, batch) + chosen.how_much(answer, batch, model.standard_severity(batch.severity_B))
