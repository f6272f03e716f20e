"""How many channels of each kind of layer go at a ratio: cheap ones faster than dear ones, and widths that run fast."""

from __future__ import annotations

from typing import Any

from plumbline.compress.prune import channel_groups
from plumbline.model.diagnosis import Diagnosis
from plumbline.params import Compress


def kind_of(group: str) -> str:
    """Kind of one of `channel_groups`, as `params.compress.Powers` names them."""
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


def shares(model: Diagnosis, ratio: float, section: Compress, multiple: int = 1) -> dict[str, float]:
    """Group of channels -> the share of it that goes.

    `1 - ratio` to the power of the group's kind is left of a width, rounded to a multiple of `multiple` where that is
    above 1. The channels of attention go by heads, and are left as they come.
    """
    layers = dict(model.network.named_modules())
    found = {}
    for group in channel_groups(model):
        kind = kind_of(group)
        width = _width(layers[group], model)
        left = (1 - ratio) ** float(getattr(section.powers, kind))
        if kind != "attention":
            left = _rounded(width * left, width, multiple) / width
        found[group] = 1 - left
    return found


def step_shares(start: Diagnosis, model: Diagnosis, part: float, ratio: float, section: Compress) -> dict[str, float]:
    """Group of channels -> the share of it that goes in the step after which `part` of the `ratio` is done.

    Counted from what `start` had, so that channels which one step cannot cut in parts do not add up: in the end as many
    are left as by one step. Rounded in the last one, and none goes before that would have to come back for it.

    Args:
        start: the network before the first step. model: what is left of it.
        part: 1 in the last step. ratio: of all steps.
        section: powers and multiple.
    """
    wanted = shares(start, ratio, section, section.multiple)
    if part < 1:
        most = {group: share - _room(group, start, section.multiple) for group, share in wanted.items()}
        now = shares(start, part * ratio, section)
        wanted = {group: max(0.0, min(share, most[group])) for group, share in now.items()}
    before, after = (dict(diagnosis.network.named_modules()) for diagnosis in (start, model))
    return {
        group: max(0.0, 1 - (1 - share) * _width(before[group], start) / _width(after[group], model))
        for group, share in wanted.items()
    }


def _room(group: str, start: Diagnosis, multiple: int) -> float:
    """Share that is left to the last step, so that it can round both of the streams that have these channels."""
    layers = dict(start.network.named_modules())
    return (multiple - 1) / _width(layers[group], start) if kind_of(group) == "shared" else 0.0


def _rounded(left: float, width: int, multiple: int) -> float:
    """The nearest multiple, one at least, of a width that is to be `left`; no more than there is."""
    return min(width, multiple * max(1, round(left / multiple))) if multiple > 1 else left


def _width(layer: Any, model: Diagnosis) -> int:
    """Channels that a layer of `model` makes; in attention for each head."""
    heads = {part.attention.value: part.attention.heads for part in model.network.neck.layers}
    return int(getattr(layer, "out_features", None) or layer.out_channels) // heads.get(layer, 1)
