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
        width = _width(layers[group])
        left = (1 - ratio) ** float(getattr(section.powers, kind))
        if kind != "attention":
            left = _rounded(width * left, width, multiple) / width
        found[group] = 1 - left
    return found


def _rounded(left: float, width: int, multiple: int) -> float:
    """The nearest multiple, one at least, of a width that is to be `left`; no more than there is."""
    return min(width, multiple * max(1, round(left / multiple))) if multiple > 1 else left


def _width(layer: Any) -> int:
    """Channels that a layer makes."""
    return int(getattr(layer, "out_features", None) or layer.out_channels)
