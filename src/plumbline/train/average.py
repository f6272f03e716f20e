"""The mean of the weights over the steps: what is evaluated and saved in place of the last weights."""

from __future__ import annotations

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor


class Ema(WeightAveraging):
    """Exponential moving average of the weights; at the beginning it forgets faster.

    After n steps it keeps at most (1 + n) / (10 + n) of itself (Abadi et al. 2016, `ExponentialMovingAverage`), so that
    a short run's mean is not full of its first weights.
    """

    def __init__(self, decay: float) -> None:
        """`decay`: how much of the mean stays at each step in the long run."""

        def move(averaged: list[Tensor], current: list[Tensor], steps: Tensor | int) -> None:
            count = float(steps)
            # All weights of a device at once: one by one, a GPU would wait for the next.
            torch._foreach_lerp_(averaged, current, 1 - min(decay, (1 + count) / (10 + count)))

        # Buffers are statistics of the data: constant, and some of them infinite.
        super().__init__(use_buffers=False, multi_avg_fn=move)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Keep the mean where the weights will be: they are moved after this, and it would stay behind on the CPU."""
        self._device = trainer.strategy.root_device
        super().setup(trainer, pl_module, stage)
