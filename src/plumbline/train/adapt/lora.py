"""Attach changes to a frozen network: low-rank ones to matrices (LoRA), whole ones to small
parameters.

Hu et al. 2022, LoRA: the weight `W` of a trained layer stays, and `W + alpha / rank *
lora_B @ lora_A` takes its place. `lora_B` begins as zeros, so that nothing has changed
before the first step.
"""

from __future__ import annotations

import math
from fnmatch import fnmatch
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from plumbline.model.network import Network

ALPHA = 8.0
"""Factor of low-rank changes, over their rank: so one learning rate fits all ranks."""
LOW_RANK = (
    "heads.join_geometry.weight",
    "heads.join_pooled.*.weight",
    "neck.attention.*.attention.*.weight",
)
"""Matrices that get a low-rank change, as patterns of their names."""
UNFROZEN = (
    "*norm*",
    "heads.join_*.bias",
    "heads.quadrant_head.*",
    "heads.severity_head.*",
    "heads.accepted_head.*",
)
"""Parameters that are trained as a whole, late, as patterns of their names."""


class LowRank(nn.Module):
    """Low-rank change of a matrix."""

    late = False

    def __init__(self, weight: Tensor, rank: int) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.scale = ALPHA / rank
        self.lora_A = nn.Parameter(torch.empty(rank, columns))
        self.lora_B = nn.Parameter(torch.zeros(rows, rank))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))  # as PyTorch draws a linear layer

    def forward(self, weight: Tensor) -> Tensor:
        """Return the changed weight."""
        return weight + self.scale * self.lora_B @ self.lora_A


class FullChange(nn.Module):
    """Change of a small parameter, of the same size."""

    late = True

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros_like(weight))

    def forward(self, weight: Tensor) -> Tensor:
        """Return the changed parameter."""
        return weight + self.shift


Change = LowRank | FullChange


def attach(network: Network, rank: int) -> None:
    """Freeze the network, and attach trainable changes to the parameters of `LOW_RANK` and
    `UNFROZEN`.

    Args:
        network: without changes. rank: of the low-rank changes.
    """
    network.requires_grad_(False)
    for name, value in dict(network.named_parameters()).items():
        low = any(fnmatch(name, pattern) for pattern in LOW_RANK)
        if not low and not any(fnmatch(name, pattern) for pattern in UNFROZEN):
            continue
        module, _, parameter = name.rpartition(".")
        change = LowRank(value, rank) if low else FullChange(value)
        # Not `unsafe`: the change keeps shape and type, and parametrize checks that.
        parametrize.register_parametrization(network.get_submodule(module), parameter, change)


def changes(network: Network) -> dict[str, Change]:
    """Return the attached changes, by the name of the parameter."""
    attached: dict[str, Change] = {}
    for prefix, module in network.named_modules():
        if parametrize.is_parametrized(module):
            for parameter, chain in cast(nn.ModuleDict, module.parametrizations).items():
                attached[f"{prefix}.{parameter}"] = cast(
                    Change, cast(parametrize.ParametrizationList, chain)[0]
                )
    return attached


def count_changes(network: Network) -> int:
    """Count the trained values, the late ones included."""
    return sum(
        value.numel() for change in changes(network).values() for value in change.parameters()
    )


def added_tensors(network: Network) -> dict[str, Tensor]:
    """Return the tensors of the changes: `PARAMETER.lora_A`, `.lora_B` (scaled) and `.shift`."""
    tensors: dict[str, Tensor] = {}
    for name, change in changes(network).items():
        if isinstance(change, FullChange):
            tensors[f"{name}.shift"] = change.shift.detach().clone()
        else:
            tensors[f"{name}.lora_A"] = change.lora_A.detach().clone()
            tensors[f"{name}.lora_B"] = (change.scale * change.lora_B).detach()
    return tensors
