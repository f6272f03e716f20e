"""Structured pruning: channels are removed for good, and the network that is left is smaller and faster.

The dependency graph of the network (Fang et al. 2023, DepGraph) says which channels must go together; how much a
channel matters is a first-order Taylor estimate from training data (Molchanov et al. 2019).
"""

from __future__ import annotations

import torch
import torch_pruning
from torch import Tensor

from plumbline.model.attention import AttentionLayer
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.losses import build_losses
from plumbline.model.network import spec_of
from plumbline.params import Train
from plumbline.prepare.features import DISTANCE, GEOMETRY, SLOPE
from plumbline.prepare.shards import SequenceSet
from plumbline.train.batches import loader


def prune(model: Diagnosis, data: SequenceSet, losses: Train, ratio: float, batches: int, seed: int) -> Diagnosis:
    """A copy of `model` without the least important channels.

    Args:
        model: left as it is.
        data: training buildings, for the importance.
        losses: weights of the losses whose gradients tell the importance.
        ratio: share of channels removed, 0 to below 1.
        batches: batches of 128 buildings used for the importance.
        seed: of their choice.
    """
    copy = _copy(model)
    network = copy.network
    heads = {
        layer: part.attention.heads
        for part in network.attention
        if isinstance(part, AttentionLayer)
        for layer in (part.attention.query, part.attention.key, part.attention.value)
    }
    pruner = torch_pruning.pruner.BasePruner(
        network,
        _example(),
        importance=torch_pruning.importance.GroupTaylorImportance(),
        unwrapped_parameters=[(parameter, 0) for parameter in network.pool.parameters()] or None,
        pruning_ratio=ratio,
        ignored_layers=[network.quadrant_head, network.severity_head],
        num_heads=heads,
        prune_head_dims=True,
        prune_num_heads=False,
    )
    network.zero_grad()
    chosen = build_losses(losses)
    for number, batch in enumerate(loader(data, 128, seed)):
        if number == batches:
            break
        answer = copy.raw(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
        loss = losses.quadrant_weight * chosen.quadrant(answer, batch.quadrant_B)
        loss = loss + losses.severity_weight * chosen.severity(answer, copy.standard_severity(batch.severity_B))
        loss.backward()  # type: ignore[no-untyped-call]
    pruner.step()
    network.zero_grad()
    return _copy(copy)


def _copy(model: Diagnosis) -> Diagnosis:
    """The same model, built afresh from the widths its layers have: proof that the widths say everything."""
    copy = Diagnosis(spec_of(model.network))
    copy.load_state_dict(model.state_dict())
    return copy.eval()


def _example() -> tuple[Tensor, ...]:
    """Inputs to trace the dependencies with."""
    size = (2, 8)
    return (
        torch.zeros(*size, len(DISTANCE)),
        torch.zeros(*size, len(SLOPE)),
        torch.zeros(size[0], len(GEOMETRY)),
        torch.ones(size, dtype=torch.bool),
    )
