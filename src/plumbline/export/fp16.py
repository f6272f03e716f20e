"""Convert the network to half precision (fp16) where rounding is harmless; inputs and physical outputs stay float32.

Torch itself makes the mixed graph, so that each cast stands where it is meant to, and TensorRT, which takes its
precision from the graph, follows. `onnxruntime.transformers.float16` converts a finished file instead: of ours it makes
one with two nodes of one name, which ONNX Runtime refuses.
"""

from __future__ import annotations

import copy
from typing import Any, cast

import torch
from torch import Tensor, nn

from plumbline.core.errors import PlumblineError
from plumbline.model.diagnosis import Diagnosis


class InPrecision(nn.Module):
    """A part of a network that computes in another precision than the parts around it."""

    def __init__(self, part: nn.Module, inside: torch.dtype, outside: torch.dtype) -> None:
        super().__init__()
        self.part = part.to(inside)
        self.inside = inside
        self.outside = outside

    def forward(self, *inputs: Tensor) -> Any:
        """Return the part's answer; masks are passed on unchanged."""
        answer = self.part(*(_to(value, self.inside) for value in inputs))
        if isinstance(answer, list):
            return [_to(value, self.outside) for value in answer]
        return _to(answer, self.outside)


def in_half(model: Diagnosis) -> Diagnosis:
    """Return a copy with encoder, attention and joining layers in fp16; `model` is unchanged.

    In float stay: standardisation, novelty, the interval and the exponentials, since they are no part of the network;
    positions, whose angles fp16 rounds by up to 1/32 at the 64th place and by more beyond; the pooling, a sum over all
    scatterers; and the last two layers, as in int8: a step before the severity's exponential is a step of that share
    of the severity.

    Raises:
        PlumblineError: a weight is larger than fp16 can hold.
    """
    half, full = torch.float16, torch.float32
    model = copy.deepcopy(model).eval()
    network = cast(Any, model.network)  # wrapped parts are no longer of the classes that it names
    if (position := network.neck.position) is not None:
        network.neck.position = None
    network.encoder, network.neck = InPrecision(network.encoder, half, half), InPrecision(network.neck, half, half)
    if position is not None:
        network.neck.part.position = InPrecision(position, full, half)
    network.pool = InPrecision(network.pool, full, full)
    network.geometry = InPrecision(network.geometry, half, half)
    heads = network.heads
    heads.join_pooled = nn.ModuleList(InPrecision(join, half, full) for join in heads.join_pooled)
    heads.join_geometry = InPrecision(heads.join_geometry, half, full)
    for name, parameter in model.named_parameters():
        # NaN passes: a network that diverged is for the gates to refuse, with evidence.
        if parameter.dtype == half and parameter.isinf().any():
            raise PlumblineError(f"fp16: a weight of {name} is larger than fp16 can hold.")
    return model


def _to(value: Tensor, precision: torch.dtype) -> Tensor:
    return value.to(precision) if value.is_floating_point() else value
