"""What int8 will do to a network, done in floating point, so that training sees it (Jacob et al. 2018, section 3).

Weights and inputs of products are rounded to the values that int8 has; the gradient of a rounding is taken as 1 within
the range, and as 0 beyond it (Bengio et al. 2013, the straight-through estimator). The network stays the one it was:
hooks of its layers do the rounding, and nothing is left of them after `remove`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.ao.quantization import FakeQuantize, MinMaxObserver, PerChannelMinMaxObserver

from plumbline.compress.pack import SMALLEST_MATRIX
from plumbline.compress.quantize import KEPT_FLOAT

READ_WITH_WHITENING = "geometry."
"""Beginning of the names of layers that read what the whitening does; see `quantize.KEPT_FLOAT`."""
INPUT_CODES = 127
"""Largest code of an input; the smallest is its negative."""
PRODUCT_CODES = 64
"""Largest code of a weight in an int8 product: 7 bits, because sums of 8-bit products saturate."""
STORED_CODES = 127
"""Largest code of a weight that is only stored in int8, and multiplied as a float."""


class Rounding:
    """The rounding of a network's layers, from when it is made to `remove`.

    Nothing is rounded before `measure` has been called.
    """

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        """`network`: its linear layers and convolutions are rounded, on `device`, where its weights are."""
        self._inputs = {name: _input_rounder().to(device) for name in product_layers(network)}
        self._weights: dict[str, FakeQuantize] = {}
        self._measured, self._measuring = False, False
        self._handles: list[Any] = []
        for name, layer in _layers(network).items():
            if name not in self._inputs and _weight(layer).numel() < SMALLEST_MATRIX:
                continue
            codes = PRODUCT_CODES if name in self._inputs else STORED_CODES
            self._weights[name] = _weight_rounder(codes).to(device)
            self._handles += [
                layer.register_forward_pre_hook(self._before(name)),
                # Also where computing again for the gradients ends in the middle of a layer.
                layer.register_forward_hook(_after, always_call=True),
            ]

    def measure(self, answer: Callable[[], object]) -> None:
        """Take the ranges of inputs from what `answer` sends through the network; it is not rounded meanwhile."""
        for rounder in self._inputs.values():
            rounder.activation_post_process.reset_min_max_vals()
            rounder.enable_observer()
        self._measuring = True
        try:
            answer()
        finally:
            self._measuring = False
            for rounder in self._inputs.values():
                rounder.disable_observer()
        self._measured = True

    def input_scales(self) -> dict[str, float]:
        """Layer -> what 1 of its input's codes is worth."""
        return {name: float(rounder.scale) for name, rounder in self._inputs.items()}

    def remove(self) -> None:
        """Leave the network as it was."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _before(self, name: str) -> Callable[[nn.Module, tuple[Tensor]], tuple[Tensor] | None]:
        inputs, weights = self._inputs.get(name), self._weights[name]

        def before(layer: nn.Module, given: tuple[Tensor]) -> tuple[Tensor] | None:
            if self._measuring:
                if inputs is not None:
                    inputs.activation_post_process(given[0])
                    scale, zero_point = inputs.calculate_qparams()
                    inputs.scale.copy_(scale)
                    # Into what is int32: a GPU's kernel reads it as that, and refuses the int64 that it is given here.
                    inputs.zero_point.copy_(zero_point)
                return None
            if not self._measured:
                return None
            weight = _weight(layer)
            weights.activation_post_process.reset_min_max_vals()
            weights.activation_post_process.to(weight.device)  # where nothing has been seen, it begins on the CPU
            # In front of the parameter, which stays where the optimiser, checkpoints and other processes know it.
            vars(layer)["weight"] = weights(weight)
            return None if inputs is None else (inputs(given[0]),)

        return before


def product_layers(network: nn.Module) -> list[str]:
    """Names of the layers whose products will be in int8, unless export finds that they change the answers too much."""
    return [
        name
        for name in _layers(network)
        if not name.startswith(READ_WITH_WHITENING) and not any(part in name for part in KEPT_FLOAT)
    ]


def _layers(network: nn.Module) -> dict[str, nn.Module]:
    return {name: part for name, part in network.named_modules() if isinstance(part, nn.Linear | nn.Conv1d)}


def _weight(layer: nn.Module) -> nn.Parameter:
    return layer.get_parameter("weight")


def _after(layer: nn.Module, *_: object) -> None:
    vars(layer).pop("weight", None)


def _input_rounder() -> FakeQuantize:
    """One range for all, symmetric about 0, as far as the largest value that was seen; see `Rounding.measure`."""
    return _rounder(MinMaxObserver, INPUT_CODES, torch.per_tensor_symmetric)


def _weight_rounder(codes: int) -> FakeQuantize:
    """A range for each channel out, symmetric about 0."""
    return _rounder(PerChannelMinMaxObserver, codes, torch.per_channel_symmetric, ch_axis=0)


def _rounder(observer: type[Any], codes: int, scheme: torch.qscheme, **more: Any) -> FakeQuantize:
    made: FakeQuantize = FakeQuantize(  # type: ignore[no-untyped-call]
        observer, quant_min=-codes, quant_max=codes, dtype=torch.qint8, qscheme=scheme, **more
    )
    return made
