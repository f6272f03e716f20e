"""Models saved when the network was one module without parts, and all categories had one stretch."""

from __future__ import annotations

from typing import Any

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


def take_one_stretch(model: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """A pre-hook of `load_state_dict`: the one stretch of then is that of every category now."""
    name = f"{prefix}interval_stretch"
    if name in state and state[name].ndim == 0:
        state[name] = state[name].expand_as(model.get_buffer("interval_stretch")).clone()


def take_older_names(_network: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """A pre-hook of `load_state_dict`: give weights with names of then the names of now."""
    for old, new in RENAMED.items():
        for name in [name for name in state if name.startswith(prefix + old)]:
            state[prefix + new + name.removeprefix(prefix + old)] = state.pop(name)
