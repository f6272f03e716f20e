"""Models saved when the network was one module without parts, an interval simpler, and no time of observation short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

RENAMED = {
    "distance.": "encoder.distance.",
    "slope.": "encoder.slope.",
    "position.": "neck.position.",
    "attention.": "neck.attention.",
    "norm.": "neck.norm.",
    "join_mean.": "heads.join_pooled.0.",
    "join_max.": "heads.join_pooled.1.",
    "join_geometry.": "heads.join_geometry.",
    "quadrant_head.": "heads.quadrant_head.",
    "severity_head.": "heads.severity_head.",
}
"""Name within the network then, and now."""


def take_older_buffers(model: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """A pre-hook of `load_state_dict`: give models of then what they lack.

    An interval of then had one scale of each category, for both sides and all kinds of buildings, with steps between
    kinds, and lengths that were added; without the steps and those it is nearly that. Whoever goes on from such a model
    calibrates its interval anew. No time was too short for the first models.
    """
    import torch

    if f"{prefix}severity_limit" in state:  # not a part of a model alone
        state.setdefault(f"{prefix}least_years", torch.zeros_like(model.get_buffer("least_years")))
    if not any(f"{prefix}interval_{name}" in state for name in ("stretch", "scale")):
        return
    for name in ("steps", "stretch"):
        state.pop(f"{prefix}interval_{name}", None)
    scale = state.pop(f"{prefix}interval_scale", torch.ones(()))
    for side in ("below", "above"):
        state[f"{prefix}interval_{side}"] = scale.expand_as(model.get_buffer(f"interval_{side}")).clone()
    state.setdefault(f"{prefix}interval_length", torch.zeros_like(model.get_buffer("interval_length")))


def take_older_names(_network: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """A pre-hook of `load_state_dict`: give weights with names of then the names of now."""
    for old, new in RENAMED.items():
        for name in [name for name in state if name.startswith(prefix + old)]:
            state[prefix + new + name.removeprefix(prefix + old)] = state.pop(name)
