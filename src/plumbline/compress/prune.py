"""Remove channels and blocks by their importance.

The scores are those of torch-pruning; the score of a channel covers all layers that lose it
together. `taylor` is the sum of |slope times weight| over a channel's weights, which bounds what
the losses rise by, to first order, where they are 0 (after Molchanov et al. 2019, equation 8, which
squares each), `magnitude` the norm of the weights (Li et al. 2017, Pruning filters).

The dependency graph of the network (Fang et al. 2023, DepGraph) shows which channels must go
together, and `importance` which of them matter least. How many go depends on the kind of layer:
cheap layers lose more than dear ones, and keep widths that run fast.
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
"""Number of buildings of a batch by which channels and blocks are compared."""


def slopes(model: Diagnosis, data: SequenceSet, losses: Train, batches: int, seed: int) -> Slopes:
    """Return the losses' gradients, summed over `batches` batches of training buildings;
    the model keeps none.

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
    gradients = {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in model.named_parameters()
    }
    model.zero_grad()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    return gradients


def loss_of(model: Diagnosis, batch: Batch, losses: Train) -> Tensor:
    """Return the training loss of a batch of buildings, without turning, perturbing or
    weighting them."""
    parts = build_losses(losses)
    answer = model.raw(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
    return parts.over_damaged(answer, batch) + parts.over_all(
        answer, batch, model.standard_severity(batch.severity_B)
    )


ROUNDING = 1e-9
"""Margin below a share of channels: 1/3 of 24 is 8, and not 9 because 1/3 is rounded."""


class Split:
    """Importance that leaves each stream a multiple of `multiple` of the channels shared by
    both streams.

    Each keeps as many as it would by `scores`, rounded, and those with the highest scores.
    """

    def __init__(
        self, scores: Any, first: nn.Module, multiple: int, shares: Mapping[nn.Module, float]
    ) -> None:
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
        n_kept = int(len(score_C) * (1 - self.shares.get(group[0].dep.target.module, 0.0)))
        best = score_C.topk(n_kept).indices
        n_first, n_second = int(is_first_C.sum()), int((~is_first_C).sum())
        target_width = self.multiple * round(int(is_first_C[best].sum()) / self.multiple)
        # Both streams keep some, even if one would lose all: what one keeps decides the width of
        # the other.
        min_width = self.multiple if n_kept >= 2 * self.multiple else 1
        narrowest, widest = max(n_kept - n_second, min_width), min(n_first, n_kept - min_width)
        # The nearest multiple that both can have.
        widths = range(-(-narrowest // self.multiple) * self.multiple, widest + 1, self.multiple)
        nearest = min(max(target_width, narrowest), widest)
        width = min(widths, key=lambda candidate: abs(candidate - target_width), default=nearest)
        is_kept_C = torch.zeros_like(is_first_C)
        for part_C, count in ((is_first_C, width), (~is_first_C, n_kept - width)):
            is_kept_C[score_C.masked_fill(~part_C, -torch.inf).topk(count).indices] = True
        # Channels that stay rank above all others, in any order.
        return score_C + is_kept_C * (2 * score_C.abs().max() + 1)


def prune(
    model: Diagnosis,
    shares: Mapping[str, float],
    slopes: Slopes,
    *,
    importance: str = "taylor",
    heads: int | None = None,
    multiple: int = 1,
) -> Diagnosis:
    """Return a copy of `model` without the least important channels.

    Args:
        model: left as it is.
        shares: one of `channel_groups` -> share of its channels to remove, 0 to below 1; as
            much of it as `largest_shares` allows. The other groups keep all.
        slopes: gradients of this model, see `slopes`.
        importance: name in `params.plugins.IMPORTANCE`.
        heads: largest number of heads that an attention layer keeps; whole heads go beside
            the channels of the others. None: all.
        multiple: each stream keeps a multiple of it of the channels that both streams share.
    """
    copy = _copy(model)
    for name, parameter in copy.named_parameters():
        parameter.grad = slopes[name].clone()
    layers = dict(copy.network.named_modules())
    largest = largest_shares(model)
    by_layer = {
        layers[name]: max(0.0, min(share, largest[name]) - ROUNDING)
        for name, share in shares.items()
    }
    scores = Split(IMPORTANCE[importance](), copy.network.encoder.distance.stem, multiple, by_layer)
    _step(_pruner(copy.network, scores, by_layer, heads), copy.network)
    if heads and any(layer.attention.heads > heads for layer in copy.network.neck.layers):
        # Whole heads went with channels of each head, where any did; else they go on their own.
        _step(_pruner(copy.network, scores, {}, heads, whole=True), copy.network)
    copy.zero_grad()
    return _copy(copy)


def channel_groups(model: Diagnosis) -> list[str]:
    """List the groups of channels that can only be removed together, each by the first
    layer that makes them."""
    return list(largest_shares(model))


def largest_shares(model: Diagnosis) -> dict[str, float]:
    """Return group of channels -> largest share that can go: one stays of each stream, and
    of each head.

    For a larger share the pruner would keep the whole group: the smallest ratio would make the
    largest network.
    """
    network = _copy(model).network
    pruner = _pruner(network, None, {})
    names = {layer: name for name, layer in network.named_modules()}
    stems = (network.encoder.distance.stem, network.encoder.slope.stem)
    shares = {}
    groups = pruner.DG.get_all_groups(
        ignored_layers=pruner.ignored_layers, root_module_types=pruner.root_module_types
    )
    for group in groups:
        first = group[0].dep.target.module
        if first not in names:
            continue
        streams = {item.dep.target.module for item in group}.intersection(stems)
        min_channels = pruner.num_heads.get(first) or max(1, len(streams))
        shares[names[first]] = max(0.0, 1 - min_channels / len(group[0].idxs))
    return shares


def _step(pruner: Any, network: Network) -> None:
    """Remove the channels, and set the number of heads that are left."""
    pruner.step()
    for layer in network.neck.layers:
        layer.attention.heads = pruner.num_heads[layer.attention.query]


def _pruner(
    network: Network,
    importance: Any,
    ratios: Mapping[torch.nn.Module, float],
    heads: int | None = None,
    whole: bool = False,
) -> Any:
    """Make a pruner. `whole`: remove whole heads only, and keep all channels of the others."""
    heads_of_layer = {
        layer: part.attention.heads
        for part in network.neck.layers
        for layer in (part.attention.query, part.attention.key, part.attention.value)
    }
    head_ratios = {
        layer: max(0.0, 1 - heads / number - ROUNDING)
        for layer, number in heads_of_layer.items()
        if heads and heads < number
    }
    # The pruner removes heads only in groups with a ratio for channels above 0, so these have one
    # that removes none.
    ratios = {**ratios, **(dict.fromkeys(head_ratios, ROUNDING) if whole else {})}
    return torch_pruning.pruner.BasePruner(
        network,
        _example(),
        importance=importance,
        unwrapped_parameters=[(parameter, 0) for parameter in network.pool.parameters()] or None,
        pruning_ratio=0.0,
        pruning_ratio_dict=dict(ratios),
        ignored_layers=network.heads.last,
        num_heads=heads_of_layer,
        prune_head_dims=not whole,
        prune_num_heads=bool(head_ratios),
        head_pruning_ratio_dict=head_ratios,
    )


def _copy(
    model: Diagnosis,
    widths: Mapping[str, Any] | None = None,
    state: Mapping[str, Tensor] | None = None,
) -> Diagnosis:
    """Return the same model, rebuilt from the widths of its layers (a check that they
    describe it), or other ones."""
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
        # The second convolution's channels are added to the scatterer's; those before it are the
        # block's alone.
        return (
            "shared"
            if words[-1] == "second" or words[-2:] == ["second", "pointwise"]
            else "convolution"
        )
    return "attention" if words[-2] == "attention" else "shared"


def channel_shares(model: Diagnosis, section: Compress) -> dict[str, float]:
    """Return group of channels -> share of it to remove.

    Of a width, `1 - pruning_ratio` to the power of the group's kind stays, rounded to `multiple`
    where that is above 1. The channels of attention go by heads, and are not rounded.
    """
    layers = dict(model.network.named_modules())
    shares = {}
    for group in channel_groups(model):
        kind = kind_of(group)
        width = _width(layers[group], model)
        kept_share = (1 - section.pruning_ratio) ** float(getattr(section.powers, kind))
        if kind != "attention":
            kept_share = _round_channels(width * kept_share, width, section.multiple) / width
        shares[group] = 1 - kept_share
    return shares


def _round_channels(channels: float, width: int, multiple: int) -> float:
    """Round channels to the nearest multiple: at least one multiple, at most `width`."""
    return min(width, multiple * max(1, round(channels / multiple))) if multiple > 1 else channels


def _width(layer: Any, model: Diagnosis) -> int:
    """Return the channels that a layer of `model` makes; in attention, those for each head."""
    heads = {part.attention.value: part.attention.heads for part in model.network.neck.layers}
    return int(getattr(layer, "out_features", None) or layer.out_channels) // heads.get(layer, 1)


STREAMS = ("distance", "slope")


def shallower(
    model: Diagnosis, most: int, data: SequenceSet, losses: Train, *, batches: int, seed: int
) -> Diagnosis:
    """Return `model` with at most `most` blocks in each stream; `model` itself if it has no more.

    Blocks are removed one after another: from a stream with too many, the one whose removal
    leaves the lowest measured loss.

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
            shorter = {number: without_block(model, stream, number) for number in range(count)}
            loss = {
                number: mean_loss(copy, data, losses, batches, seed)
                for number, copy in shorter.items()
            }
            number = min(loss, key=loss.__getitem__)
            log.info(
                "block %d of %d of the stream %s goes: the loss is then %.3f",
                number + 1,
                count,
                stream,
                loss[number],
            )
            model = shorter[number]
    return model


def without_block(model: Diagnosis, stream: str, gone: int) -> Diagnosis:
    """Return a copy of `model` without block number `gone` (from 0) of a stream; later
    blocks move up."""
    hidden = _hidden(model, stream)
    remaining = [number for number in range(len(hidden)) if number != gone]
    widths = {f"{stream}_hidden": [hidden[number] for number in remaining]}
    blocks = f"network.encoder.{stream}.blocks."
    state = {
        name: value for name, value in model.state_dict().items() if not name.startswith(blocks)
    }
    for place, number in enumerate(remaining):
        prefix = f"{blocks}{number}."
        state |= {
            f"{blocks}{place}.{name.removeprefix(prefix)}": value
            for name, value in model.state_dict().items()
            if name.startswith(prefix)
        }
    return _copy(model, widths, state)


@torch.inference_mode()
def mean_loss(model: Diagnosis, data: SequenceSet, losses: Train, batches: int, seed: int) -> float:
    """Return `loss_of`, averaged over `batches` batches of buildings."""
    values = [
        float(loss_of(model, batch, losses))
        for batch in itertools.islice(loader(data, BATCH, seed), batches)
    ]
    return sum(values) / len(values)


def _hidden(model: Diagnosis, stream: str) -> list[int]:
    return list(getattr(spec_of(model.network), f"{stream}_hidden"))
