"""Structured pruning: channels are removed for good, and the network that is left is smaller and faster.

The dependency graph of the network (Fang et al. 2023, DepGraph) says which channels must go together; which of them
matter least, `importance` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch_pruning
from torch import Tensor

from plumbline.compress.importance import Slopes
from plumbline.compress.split import Split
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.network import Network, spec_of
from plumbline.params.plugins import IMPORTANCE
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE

ROUNDING = 1e-9
"""Taken off a share of channels: 1/3 of 24 is to be 8, and not 9 because 1/3 has no end."""


def prune(
    model: Diagnosis, ratio: float, slopes: Slopes, importance: str = "taylor",
    parts: Mapping[str, float] | None = None, heads: int | None = None, multiple: int = 1,
) -> Diagnosis:  # fmt: skip
    """A copy of `model` without the least important channels.

    Args:
        model: left as it is.
        ratio: share of channels removed, 0 to below 1.
        slopes: see `importance.slopes`; of this model.
        importance: name in `params.plugins.IMPORTANCE`.
        parts: name of one of `channel_groups` -> a share of its own; as much of it as `largest_shares` allows.
        heads: of each attention layer that stay at most; whole heads go beside the channels of the others. None: all.
        multiple: each stream keeps a multiple of it of the channels that both streams share.
    """
    copy = _copy(model)
    for name, parameter in copy.named_parameters():
        parameter.grad = slopes[name].clone()
    layers = dict(copy.network.named_modules())
    largest = largest_shares(model) if parts else {}
    own = {layers[name]: _share(min(share, largest[name])) for name, share in (parts or {}).items()}
    scores = IMPORTANCE[importance]()
    stem = copy.network.encoder.distance.stem
    scores = Split(scores, stem, multiple, lambda layer: own.get(layer, _share(ratio)))
    pruner = _pruner(copy.network, _share(ratio), scores, own, heads)
    _step(pruner, copy.network)
    if heads and any(layer.attention.heads > heads for layer in copy.network.neck.layers):
        # Whole heads went with channels of each head, where any did; else they go on their own.
        _step(_pruner(copy.network, 0.0, scores, {}, heads, whole=True), copy.network)
    copy.zero_grad()
    return _copy(copy)


def channel_groups(model: Diagnosis) -> list[str]:
    """Names of the groups of channels that can only go together: each the first layer that makes them."""
    return list(largest_shares(model))


def largest_shares(model: Diagnosis) -> dict[str, float]:
    """Group of channels -> the largest share of it that can go: one stays of each stream, and of each head.

    Asked for more, the pruner would leave the whole group, and the smallest ratio would make the largest network.
    """
    network = _copy(model).network
    pruner = _pruner(network, 0.5, None, {})
    names = {layer: name for name, layer in network.named_modules()}
    stems = (network.encoder.distance.stem, network.encoder.slope.stem)
    found = {}
    groups = pruner.DG.get_all_groups(ignored_layers=pruner.ignored_layers, root_module_types=pruner.root_module_types)
    for group in groups:
        first = group[0].dep.target.module
        if first not in names:
            continue
        streams = {item.dep.target.module for item in group}.intersection(stems)
        least = pruner.num_heads.get(first) or max(1, len(streams))
        found[names[first]] = max(0.0, 1 - least / len(group[0].idxs))
    return found


def _share(ratio: float) -> float:
    return max(0.0, ratio - ROUNDING)


def _step(pruner: Any, network: Network) -> None:
    """Take the channels, and tell the network how many heads are left."""
    pruner.step()
    for layer in network.neck.layers:
        layer.attention.heads = pruner.num_heads[layer.attention.query]


def _pruner(
    network: Network, ratio: float, importance: Any, own: Mapping[torch.nn.Module, float], heads: int | None = None,
    whole: bool = False,
) -> Any:  # fmt: skip
    """`whole`: take heads only, and of those that stay every channel."""
    made = {
        layer: part.attention.heads
        for part in network.neck.layers
        for layer in (part.attention.query, part.attention.key, part.attention.value)
    }
    gone = {layer: _share(1 - heads / number) for layer, number in made.items() if heads and heads < number}
    # The pruner looks at heads only where it has channels of the group to take, if only in name.
    own = {**own, **(dict.fromkeys(gone, ROUNDING) if whole else {})}
    return torch_pruning.pruner.BasePruner(
        network,
        _example(),
        importance=importance,
        unwrapped_parameters=[(parameter, 0) for parameter in network.pool.parameters()] or None,
        pruning_ratio=ratio,
        pruning_ratio_dict=dict(own),
        ignored_layers=[network.quadrant_head, network.severity_head],
        num_heads=made,
        prune_head_dims=not whole,
        prune_num_heads=bool(gone),
        head_pruning_ratio_dict=gone,
    )


def _copy(model: Diagnosis) -> Diagnosis:
    """The same model, built afresh from the widths its layers have: proof that the widths say everything."""
    copy = Diagnosis(spec_of(model.network))
    copy.load_state_dict(model.state_dict())
    copy.preparation = model.preparation
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
