"""Attach changes to a frozen network: low-rank ones to matrices (LoRA), whole ones to small parameters.

Hu et al. 2022, LoRA: the weight `W` of a trained layer stays, and `W + alpha / rank * lora_B @ lora_A` takes its place.
`lora_B` begins as zeros, so that nothing has changed before the first step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatch
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from plumbline.core.errors import InputError
from plumbline.model.network import Network


class LowRank(nn.Module):
    """Low-rank change of a layer's weight; a convolution's weight counts as the matrix of its outputs."""

    late = False

    def __init__(self, weight: Tensor, rank: int, alpha: float) -> None:
        super().__init__()
        rows, columns = len(weight), weight[0].numel()
        self.scale = alpha / rank
        self.lora_A = nn.Parameter(torch.empty(rank, columns))
        self.lora_B = nn.Parameter(torch.zeros(rows, rank))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))  # as PyTorch draws a linear layer

    def forward(self, weight: Tensor) -> Tensor:
        """Return the changed weight."""
        return weight + (self.scale * self.lora_B @ self.lora_A).view_as(weight)


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


def attach(
    network: Network, targets: Sequence[str], unfreeze: Sequence[str], rank: int, alpha: float, lenient: bool = False
) -> None:
    """Freeze the network, and make changes of some of its parameters trainable.

    Args:
        network: without changes.
        targets: patterns of the names of matrices and convolutions that get a low-rank change.
        unfreeze: patterns of the names of parameters that get a whole one.
        rank, alpha: of the low-rank changes.
        lenient: of `targets` some may fit nothing, as those that nobody asked for do in a network without attention.

    Raises:
        InputError: a pattern fits no parameter that can be changed so; with `lenient`, none of `targets` does. Or
            `unfreeze` has all that `targets` has.
    """
    parameters = dict(network.named_parameters())
    whole = _fitting("unfreeze", unfreeze, list(parameters))
    matrices = [name for name, value in parameters.items() if value.ndim > 1]
    if lenient:
        targets = [pattern for pattern in targets if _any_fits(pattern, matrices)] or targets
    low = [name for name in _fitting("targets", targets, matrices, list(parameters)) if name not in whole]
    if not low:  # and training would begin with nothing: what changes as a whole joins late
        raise InputError(
            "adapt.targets: adapt.unfreeze names all of these matrices, and changes them as a whole: none is left for "
            "a low-rank change. Take some out of adapt.unfreeze."
        )
    network.requires_grad_(False)
    for name in (*low, *whole):
        module, _, own = name.rpartition(".")
        value = parameters[name]
        change = LowRank(value, rank, alpha) if name in low else FullChange(value)
        # Not `unsafe`: the change keeps shape and type, and parametrize checks that.
        parametrize.register_parametrization(network.get_submodule(module), own, change)


def _any_fits(pattern: str, names: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for name in names)


def _fitting(key: str, patterns: Sequence[str], names: Sequence[str], others: Sequence[str] = ()) -> list[str]:
    """Return the `names` that fit a pattern; `others` have no matrix, and a pattern may match them by mistake."""
    for pattern in patterns:
        if not _any_fits(pattern, names):
            parts = ", ".join(sorted({name.split(".")[0] for name in names}))
            told = f"fits no parameter. Their names begin with: {parts}."
            if _any_fits(pattern, others):
                told = "fits no matrix or convolution; a low-rank change is of one. adapt.unfreeze takes any parameter."
            raise InputError(f"adapt.{key}: {pattern!r} {told}")
    return [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]


def changes(network: Network) -> dict[str, Change]:
    """Return the attached changes, by the name of the parameter."""
    found: dict[str, Change] = {}
    for prefix, module in network.named_modules():
        if parametrize.is_parametrized(module):
            for own, chain in cast(nn.ModuleDict, module.parametrizations).items():
                found[f"{prefix}.{own}"] = cast(Change, cast(parametrize.ParametrizationList, chain)[0])
    return found


def count_changes(network: Network) -> int:
    """Count the trained values, the late ones included."""
    return sum(value.numel() for change in changes(network).values() for value in change.parameters())


def blend(network: Network, before: Network, part: float) -> None:
    """Take back a part of what the changes have learned since `before`, a copy of the network.

    Wortsman et al. 2022: weights between those before and after tuning hold better where labels are few.
    """
    with torch.no_grad():
        for name, change in changes(before).items():
            for own, start in zip(changes(network)[name].parameters(), change.parameters(), strict=True):
                own.copy_(start + part * (own - start))
