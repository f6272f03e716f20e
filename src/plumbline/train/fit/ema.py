"""Keep an exponential moving average (EMA) of the weights: it is evaluated and saved, not
the last weights."""

from __future__ import annotations

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor

from plumbline.train.distributed.strategies import Sharded, local_share


class Ema(WeightAveraging):
    """Exponential moving average of the weights; at the beginning it forgets faster.

    After n steps the former mean has a weight of at most (1 + n) / (10 + n), so that the first
    weights do not dominate the mean of a short run (Abadi et al. 2016, `ExponentialMovingAverage`).
    """

    def __init__(self, decay: float) -> None:
        """`decay`: weight of the former mean at each step, in the long run."""

        @torch.no_grad()
        def move(averaged: list[Tensor], current: list[Tensor], count: int | Tensor) -> None:
            weight = min(decay, (1 + int(count)) / (10 + int(count)))
            pairs = ([local_share(tensor) for tensor in tensors] for tensors in (averaged, current))
            torch._foreach_lerp_(*pairs, 1 - weight)  # type: ignore[call-overload]

        # Buffers are statistics of the data, some of them infinite, which have no mean: they
        # are copied.
        super().__init__(use_buffers=False, multi_avg_fn=move)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Keep the mean where the weights will be: they are moved after this, and it would
        stay behind on the CPU."""
        self._device = trainer.strategy.root_device
        super().setup(trainer, pl_module, stage)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Shard the mean as the weights are by now; a resumed run's is there."""
        if isinstance(trainer.strategy, Sharded) and self._average_model is not None:
            trainer.strategy.shard(self._average_model.module)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take the weights back, of which a sharded network has gathered the mean."""
        if isinstance(trainer.strategy, Sharded):
            trainer.strategy.free_weights(pl_module)
        super().on_validation_epoch_end(trainer, pl_module)
