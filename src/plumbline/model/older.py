"""Models saved when the network was one module without parts, an interval simpler, and no time of observation short."""

from __future__ import annotations

from typing import Any

import torch
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
    """A pre-hook of `load_state_dict`: what models of then lack does nothing to them.

    An interval of then was the network's own with lengths added, later scaled. The one stretch of the first models is
    that of every category now. No time was too short for them.
    """
    name = f"{prefix}interval_stretch"
    if name in state and state[name].ndim == 0:
        state[name] = state[name].expand_as(model.get_buffer("interval_stretch")).clone()
    later_buffers = {"interval_scale": 1.0, "interval_steps": 0.0, "interval_length": 0.0, "least_years": 0.0}
    for later, value in later_buffers.items():
        if name in state and prefix + later not in state:
            state[prefix + later] = torch.full_like(model.get_buffer(later), value)


def take_older_names(_network: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """A pre-hook of `load_state_dict`: give weights with names of then the names of now."""
    for old, new in RENAMED.items():
        for name in [name for name in state if name.startswith(prefix + old)]:
            state[prefix + new + name.removeprefix(prefix + old)] = state.pop(name)
