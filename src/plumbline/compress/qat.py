"""Train with simulated int8 (QAT) in the last epochs of fine-tuning."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from plumbline.compress.fake_quantize import Rounding
from plumbline.compress.quantize import Calibration
from plumbline.core.console import log
from plumbline.model.diagnosis import Diagnosis
from plumbline.params import Compress, Train
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.distributed_sampler import Example
from plumbline.train.fit.module import Optimisation

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
