"""Remove channels and blocks by their importance.

The scores are those of torch-pruning; all layers that lose a channel together have a say in its score. `taylor` is the
sum of |slope times weight| over a channel's weights, which bounds what the losses rise by, to first order, where they
are 0 (after Molchanov et al. 2019, equation 8, which squares each), `magnitude` the norm of the weights (Li et al.
2017, Pruning filters).

The dependency graph of the network (Fang et al. 2023, DepGraph) says which channels must go together; which of them
matter least, `importance` says. How many go depends on the kind of layer: cheap ones faster than dear ones, and to
widths that run fast.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import torch
import torch_pruning
from torch import Tensor, nn

from plumbline.core.console import log
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.losses import build_losses
from plumbline.model.network import Network, spec_of
from plumbline.params import Compress, Train
from plumbline.params.plugins import IMPORTANCE
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.batches import Batch, loader

Slopes = dict[str, Tensor]
"""Parameter's name -> the losses' gradient."""
BATCH = 128


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
    parts = build_losses(losses)
    answer = model.raw(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
    return parts.over_damaged(answer, batch) + parts.over_all(answer, batch, model.standard_severity(batch.severity_B))


ROUNDING = 1e-9
"""Taken off a share of channels: 1/3 of 24 is to be 8, and not 9 because 1/3 has no end."""


class Split:
    """Importance that leaves each stream a multiple of `multiple` of the channels shared by both streams.

    How many each keeps is what `scores` would keep, rounded; which ones, they say.
    """

    def __init__(self, scores: Any, first: nn.Module, multiple: int, shares: Mapping[nn.Module, float]) -> None:
        """Keep the settings.

        Args:
            scores: importance of torch-pruning.
            first: layer that makes the first stream's channels.
            multiple: see `prune`; each stream keeps as many at least, where it has twice as many.
            shares: first layer of a group -> share of its channels to remove; 0 for other groups.
        """
        self.scores, self.first, self.multiple, self.shares = scores, first, multiple, shares

    def __call__(self, group: Any) -> Any:
        """Return (C,) importance of the group's channels."""
        score_C = self.scores(group)
        places = [item.root_idxs for item in group if item.dep.target.module is self.first]
        if score_C is None or not places or len(places[0]) == len(score_C):
            return score_C
        is_first_C = torch.zeros(len(score_C), dtype=torch.bool)
        is_first_C[places[0]] = True
        left = int(len(score_C) * (1 - self.shares.get(group[0].dep.target.module, 0.0)))
        best = score_C.topk(left).indices
        most, other = int(is_first_C.sum()), int((~is_first_C).sum())
        wanted = self.multiple * round(int(is_first_C[best].sum()) / self.multiple)
        # Also of a stream of which all would go, or all would stay: what is left over is the other's width.
        least = self.multiple if left >= 2 * self.multiple else 1
        lowest, highest = max(left - other, least), min(most, left - least)
        # The nearest multiple that both can have.
        able = range(-(-lowest // self.multiple) * self.multiple, highest + 1, self.multiple)
        number = min(able, key=lambda one: abs(one - wanted), default=min(max(wanted, lowest), highest))
        kept_C = torch.zeros_like(is_first_C)
        for part_C, count in ((is_first_C, number), (~is_first_C, left - number)):
            kept_C[score_C.masked_fill(~part_C, -torch.inf).topk(count).indices] = True
        # Those that stay are to be ahead of all others, in whatever order.
        return score_C + kept_C * (2 * score_C.abs().max() + 1)


def prune(
    model: Diagnosis,
    shares: Mapping[str, float],
    slopes: Slopes,
    importance: str = "taylor",
    heads: int | None = None,
    multiple: int = 1,
) -> Diagnosis:
    """Return a copy of `model` without the least important channels.

    Args:
        model: left as it is.
        shares: one of `channel_groups` -> share of its channels to remove, 0 to below 1; as much of it as
            `largest_shares` allows. The other groups keep all.
        slopes: gradients of this model, see `slopes`.
        importance: name in `params.plugins.IMPORTANCE`.
        heads: largest number of heads that an attention layer keeps; whole heads go beside the channels of the others.
            None: all.
        multiple: each stream keeps a multiple of it of the channels that both streams share.
    """
    copy = _copy(model)
    for name, parameter in copy.named_parameters():
        parameter.grad = slopes[name].clone()
    layers = dict(copy.network.named_modules())
    largest = largest_shares(model)
    by_layer = {layers[name]: max(0.0, min(share, largest[name]) - ROUNDING) for name, share in shares.items()}
    scores = Split(IMPORTANCE[importance](), copy.network.encoder.distance.stem, multiple, by_layer)
    _step(_pruner(copy.network, scores, by_layer, heads), copy.network)
    if heads and any(layer.attention.heads > heads for layer in copy.network.neck.layers):
        # Whole heads went with channels of each head, where any did; else they go on their own.
        _step(_pruner(copy.network, scores, {}, heads, whole=True), copy.network)
    copy.zero_grad()
    return _copy(copy)


def channel_groups(model: Diagnosis) -> list[str]:
    """List the groups of channels that can only be removed together, each by the first layer that makes them."""
    return list(largest_shares(model))


def largest_shares(model: Diagnosis) -> dict[str, float]:
    """Return group of channels -> largest share that can go: one stays of each stream, and of each head.

    Asked for more, the pruner would leave the whole group, and the smallest ratio would make the largest network.
    """
    network = _copy(model).network
    pruner = _pruner(network, None, {})
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


def _step(pruner: Any, network: Network) -> None:
    """Remove the channels, and set the number of heads that are left."""
    pruner.step()
    for layer in network.neck.layers:
        layer.attention.heads = pruner.num_heads[layer.attention.query]


def _pruner(
    network: Network,
    importance: Any,
    own: Mapping[torch.nn.Module, float],
    heads: int | None = None,
    whole: bool = False,
) -> Any:
    """Make a pruner. `whole`: remove whole heads only, and keep all channels of the others."""
    made = {
        layer: part.attention.heads
        for part in network.neck.layers
        for layer in (part.attention.query, part.attention.key, part.attention.value)
    }
    gone = {
        layer: max(0.0, 1 - heads / number - ROUNDING) for layer, number in made.items() if heads and heads < number
    }
    # The pruner looks at heads only where it has channels of the group to take, if only in name.
    own = {**own, **(dict.fromkeys(gone, ROUNDING) if whole else {})}
    return torch_pruning.pruner.BasePruner(
        network,
        _example(),
        importance=importance,
        unwrapped_parameters=[(parameter, 0) for parameter in network.pool.parameters()] or None,
        pruning_ratio=0.0,
        pruning_ratio_dict=dict(own),
        ignored_layers=network.heads.last,
        num_heads=made,
        prune_head_dims=not whole,
        prune_num_heads=bool(gone),
        head_pruning_ratio_dict=gone,
    )


def _copy(
    model: Diagnosis, widths: Mapping[str, Any] | None = None, state: Mapping[str, Tensor] | None = None
) -> Diagnosis:
    """Return the same model, rebuilt from the widths of its layers (a check that they describe it), or other ones."""
    copy = Diagnosis(spec_of(model.network).model_copy(update=widths))
    copy.load_state_dict(model.state_dict() if state is None else state)
    copy.preparation = model.preparation
    return copy.eval()


def _example() -> tuple[Tensor, ...]:
    """Return inputs to trace the dependencies with."""
    size = (2, 8)
    return (
        torch.zeros(*size, len(DISTANCE)),
        torch.zeros(*size, len(SLOPE)),
        torch.zeros(size[0], len(GEOMETRY)),
        torch.ones(size, dtype=torch.bool),
    )


def kind_of(group: str) -> str:
    """Return the kind of one of `channel_groups`, as in `params.compress.Powers`."""
    words = group.split(".")
    if words[0] == "heads":
        return "joined"
    if words[0] == "geometry":
        return "geometry"
    if words[-1] == "widen":
        return "feedforward"
    if "blocks" in words:
        # What the second convolution makes is added to what the scatterer has; all before it is the block's own.
        return "shared" if words[-1] == "second" or words[-2:] == ["second", "pointwise"] else "convolution"
    return "attention" if words[-2] == "attention" else "shared"


def channel_shares(model: Diagnosis, section: Compress) -> dict[str, float]:
    """Return group of channels -> share of it to remove.

    `1 - pruning_ratio` to the power of the group's kind is left of a width, rounded to `multiple` where that is above
    1. The channels of attention go by heads, and are left as they come.
    """
    layers = dict(model.network.named_modules())
    shares = {}
    for group in channel_groups(model):
        kind = kind_of(group)
        width = _width(layers[group], model)
        left = (1 - section.pruning_ratio) ** float(getattr(section.powers, kind))
        if kind != "attention":
            left = _rounded(width * left, width, section.multiple) / width
        shares[group] = 1 - left
    return shares


def _rounded(left: float, width: int, multiple: int) -> float:
    """Round a width `left` to the nearest multiple: at least one multiple, at most `width`."""
    return min(width, multiple * max(1, round(left / multiple))) if multiple > 1 else left


def _width(layer: Any, model: Diagnosis) -> int:
    """Return the channels that a layer of `model` makes; in attention, those for each head."""
    heads = {part.attention.value: part.attention.heads for part in model.network.neck.layers}
    return int(getattr(layer, "out_features", None) or layer.out_channels) // heads.get(layer, 1)


STREAMS = ("distance", "slope")


def shallower(model: Diagnosis, most: int, data: SequenceSet, losses: Train, batches: int, seed: int) -> Diagnosis:
    """Return `model` with at most `most` blocks in each stream; `model` itself if it has no more.

    Blocks are removed one after another: from a stream with too many, the one whose removal leaves the lowest measured
    loss.

    Args:
        model: in evaluation mode; left as it is.
        most: blocks of a stream that may stay.
        data: training buildings.
        losses: which losses, and their weights.
        batches: batches of 128 buildings to measure on.
        seed: of their choice.
    """
    for stream in STREAMS:
        while (count := len(_hidden(model, stream))) > most:
            without = {number: without_block(model, stream, number) for number in range(count)}
            found = {number: mean_loss(one, data, losses, batches, seed) for number, one in without.items()}
            gone = min(found, key=found.__getitem__)
            log.info(
                "block %d of %d of the stream %s goes: the loss is then %.3f", gone + 1, count, stream, found[gone]
            )
            model = without[gone]
    return model


def without_block(model: Diagnosis, stream: str, gone: int) -> Diagnosis:
    """Return a copy of `model` without block number `gone` (from 0) of a stream; later blocks move up."""
    hidden = _hidden(model, stream)
    kept = [number for number in range(len(hidden)) if number != gone]
    widths = {f"{stream}_hidden": [hidden[number] for number in kept]}
    blocks = f"network.encoder.{stream}.blocks."
    state = {name: value for name, value in model.state_dict().items() if not name.startswith(blocks)}
    for place, number in enumerate(kept):
        own = f"{blocks}{number}."
        state |= {
            f"{blocks}{place}.{name.removeprefix(own)}": value
            for name, value in model.state_dict().items()
            if name.startswith(own)
        }
    return _copy(model, widths, state)


@torch.inference_mode()
def mean_loss(model: Diagnosis, data: SequenceSet, losses: Train, batches: int, seed: int) -> float:
    """Return `loss_of`, averaged over `batches` batches of buildings."""
    found = [float(loss_of(model, batch, losses)) for batch in itertools.islice(loader(data, BATCH, seed), batches)]
    return sum(found) / len(found)


def _hidden(model: Diagnosis, stream: str) -> list[int]:
    return list(getattr(spec_of(model.network), f"{stream}_hidden"))
