"""Train with rounding, as int8 will round.

Weights and inputs of products are rounded to the values that int8 has; the gradient of a rounding is taken as 1 within
the range, and as 0 beyond it (Bengio et al. 2013, the straight-through estimator). The network stays the one it was:
hooks of its layers do the rounding, and nothing is left of them after `remove`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plumbline.compress.pack import SMALLEST_MATRIX
from plumbline.compress.quantize import KEPT_FLOAT, Calibration
from plumbline.core.console import log
from plumbline.model.diagnosis import Diagnosis
from plumbline.params import Compress, Train
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.sampler import Example
from plumbline.train.fit.module import Optimisation

READ_WITH_WHITENING = "geometry."
"""Beginning of the names of layers that read what the whitening does; see `quantize.KEPT_FLOAT`."""
INPUT_CODES = 127
"""Largest code of an input; the smallest is its negative."""
PRODUCT_CODES = 64
"""Largest code of a weight in an int8 product: 7 bits, because sums of 8-bit products saturate."""
STORED_CODES = 127
"""Largest code of a weight that is only stored in int8, and multiplied as a float."""


class Rounding:
    """Rounding of a network's layers, from construction until `remove`.

    Nothing is rounded before `measure` has been called. No value is read back from a GPU, which would be waited for in
    each layer.
    """

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        """Attach to `network`: its linear layers and convolutions are rounded, on `device`, where its weights are."""
        self._largest = {name: torch.zeros((), device=device) for name in product_layers(network)}
        self._measured, self._measuring = False, False
        self._handles: list[Any] = []
        for name, layer in _layers(network).items():
            if name not in self._largest and _weight(layer).numel() < SMALLEST_MATRIX:
                continue
            self._handles += [
                layer.register_forward_pre_hook(self._before(name)),
                # Also where computing again for the gradients ends in the middle of a layer.
                layer.register_forward_hook(_after, always_call=True),
            ]

    def measure(self, answer: Callable[[], object]) -> None:
        """Measure the ranges of inputs while `answer` runs the network, without rounding."""
        for largest in self._largest.values():
            largest.zero_()
        self._measuring = True
        try:
            answer()
        finally:
            self._measuring = False
        self._measured = True

    def input_scales(self) -> dict[str, float]:
        """Return layer -> value of one code step of its input."""
        return {name: float(worth(largest, INPUT_CODES)) for name, largest in self._largest.items()}

    def remove(self) -> None:
        """Remove the rounding from the network."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _before(self, name: str) -> Callable[[nn.Module, tuple[Tensor]], tuple[Tensor] | None]:
        largest = self._largest.get(name)

        def before(layer: nn.Module, given: tuple[Tensor]) -> tuple[Tensor] | None:
            if self._measuring:
                if largest is not None:
                    largest.copy_(torch.maximum(largest, given[0].detach().abs().amax()))
                return None
            if not self._measured:
                return None
            # In front of the parameter, which stays where the optimiser, checkpoints and other processes know it.
            vars(layer)["weight"] = round_weight(_weight(layer), STORED_CODES if largest is None else PRODUCT_CODES)
            return None if largest is None else (_round_input(given[0], largest),)

        return before


def product_layers(network: nn.Module) -> list[str]:
    """List the layers with products in int8, before export excludes those that change the answers too much."""
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


def round_weight(weight: Tensor, codes: int) -> Tensor:
    """Round a weight, with a range for each output channel, symmetric about 0."""
    return _round(weight, worth(weight.detach().flatten(1).abs().amax(1), codes), codes)


def _round_input(given: Tensor, largest: Tensor) -> Tensor:
    """Round an input, with one range for all, symmetric about 0, up to the largest value measured."""
    return _round(given[None], worth(largest[None], INPUT_CODES), INPUT_CODES)[0]


def _round(values: Tensor, worth_O: Tensor, codes: int) -> Tensor:
    """Round to whole multiples of a `worth` for each entry of the first dimension."""
    # Zeros in float32: of whole numbers torch looks whether they are in the range, for which it waits for a GPU.
    return torch.fake_quantize_per_channel_affine(values, worth_O, torch.zeros_like(worth_O), 0, -codes, codes)


def worth(largest: Tensor, codes: int) -> Tensor:
    """Return the value of one code step; above 0 even if all values are 0."""
    return (largest / codes).clamp(min=torch.finfo(largest.dtype).eps)


BATCHES, BATCH_SIZE = 8, 64
"""Of the buildings that give the ranges: by default those that `export` takes them from."""
INPUTS = ("distance", "slope", "geometry", "mask")
EVERY = 32
"""Batches of training after which ranges are measured anew: weights move, and ranges with them."""


class AwareOptimisation(Optimisation):
    """An `Optimisation` that answers as int8 will in the last `compress.quantisation_aware` epochs.

    Ranges are those that `export` will find: the largest values that the same buildings, padded in the same batches,
    cause in the network before it is rounded. They follow from the weights alone, so that each process has the same,
    and so does a run that was killed. The epoch is chosen among these last ones, by answers that are rounded too.
    """

    def __init__(
        self, model: Diagnosis, section: Compress, losses: Train, teacher: Diagnosis, train: SequenceSet
    ) -> None:
        """Prepare the rounding. `train`: some of its buildings give the ranges."""
        super().__init__(model, section, losses, teacher, section.distil_weight, "compress")
        self.rounded_from = section.epochs - section.quantisation_aware
        self.chosen_from = self.rounded_from
        calibration = Calibration(train, BATCHES, BATCH_SIZE, seed=0)
        self._given: list[list[Tensor]] = [
            [torch.from_numpy(np.array(inputs[name])) for name in INPUTS] for inputs in iter(calibration.get_next, None)
        ]
        self._rounding: list[Rounding] = []

    def on_train_batch_start(self, batch: Example, batch_index: int) -> None:
        """Measure the ranges every few batches."""
        if batch_index % EVERY == 0:
            self._measure()
        super().on_train_batch_start(batch, batch_index)

    def on_validation_epoch_start(self) -> None:
        """Measure the ranges with the evaluated weights: the averaged ones, where the run keeps an average."""
        self._measure()

    def teardown(self, stage: str) -> None:
        """Remove the rounding."""
        for rounding in self._rounding:
            rounding.remove()
        self._rounding.clear()

    def _measure(self) -> None:
        if self.current_epoch < self.rounded_from:
            return
        if not self._rounding:
            log.info("from epoch %d on the network is rounded as in int8", self.current_epoch + 1)
            self._rounding.append(Rounding(self.model.network, self.device))
            self._raw = self.model.raw  # what torch has compiled knows of no hook, and would round nothing
            self._given = [[tensor.to(self.device) for tensor in given] for given in self._given]
        training = self.model.training
        self.model.eval()
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            self._rounding[0].measure(self._answer)
        self.model.train(training)

    def _answer(self) -> None:
        for given in self._given:
            self.model.raw(*given)
