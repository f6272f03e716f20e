"""Keep an exponential moving average (EMA) of the weights: it is evaluated and saved, not the last weights."""

from __future__ import annotations

from typing import Any

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor

from plumbline.train.distributed.strategies import Sharded, own_share


class Ema(WeightAveraging):
    """Exponential moving average of the weights; at the beginning it forgets faster.

    After n steps it keeps at most (1 + n) / (10 + n) of itself (Abadi et al. 2016, `ExponentialMovingAverage`), so that
    a short run's mean is not full of its first weights.
    """

    def __init__(self, decay: float) -> None:
        """`decay`: how much of the mean stays at each step in the long run."""
        super().__init__(use_buffers=False)
        self.decay = decay
        self._pairs: tuple[list[Tensor], ...] | None = None
        """mean and weights, and the buffers of both, once the run has begun"""
        self._count = 0
        """steps in the mean"""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Keep the mean where the weights will be: they are moved after this, and it would stay behind on the CPU."""
        self._device = trainer.strategy.root_device
        self._pairs = None
        super().setup(trainer, pl_module, stage)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Shard the mean as the weights are by now; a resumed run's is there."""
        if isinstance(trainer.strategy, Sharded) and self._average_model is not None:
            trainer.strategy.shard(self._average_model.module)

    @torch.no_grad()
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Move the mean where the batch ended a step.

        Lightning looks all weights up at each step, and asks the GPU how many there were: on a CPU that takes ten
        times as long as moving them. Here both are known from the first step on; a resumed run's mean is there by then.
        """
        mean = self._average_model
        if mean is None or trainer.global_step <= self._latest_update_step:
            return
        if self._pairs is None:
            both = mean.module, pl_module
            of_both = [[own_share(weight) for weight in part.parameters()] for part in both] + [
                list(part.buffers()) for part in both
            ]
            self._pairs = tuple(of_both)
            self._count = int(mean.n_averaged)
        averaged, current, buffers_averaged, buffers_current = self._pairs
        self.move(averaged, current, self._count)
        # Statistics of the data, some of them infinite, which have no mean; those of a BatchNorm move.
        if buffers_averaged:
            torch._foreach_copy_(buffers_averaged, buffers_current)
        self._count += 1
        mean.n_averaged += 1  # which checkpoints hold
        self._latest_update_step = trainer.global_step

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take the weights back, of which a sharded network has gathered the mean."""
        if isinstance(trainer.strategy, Sharded):
            trainer.strategy.free_weights(pl_module)
        super().on_validation_epoch_end(trainer, pl_module)

    def move(self, averaged: list[Tensor], current: list[Tensor], count: int) -> None:
        """Move the mean of `count` steps towards the weights; the mean of none becomes them."""
        kept = min(self.decay, (1 + count) / (10 + count)) if count else 0.0
        # All weights of a device at once: one by one, a GPU would wait for the next.
        torch._foreach_lerp_(averaged, current, 1 - kept)
