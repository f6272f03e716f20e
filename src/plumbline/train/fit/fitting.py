"""Fit any network under Lightning, with its learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from lightning import LightningModule
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from plumbline.params import FitOptions, Optimise
from plumbline.train.distributed.strategies import Sharded, clip, gather
from plumbline.train.monitor.alarms import StepAlarm


def rate_factor(optimise: Optimise, position: float, scores: Sequence[float]) -> float:
    """Return the factor of `learning_rate`.

    Args:
        optimise: `schedule`, `warmup_epochs` or `warmup_share`, `epochs` and `patience` of
            it count.
        position: epochs done, with the done part of the present one.
        scores: of the tune split after each epoch that is done and that the run may end
            with: others, as those before a curriculum is complete, may score higher for
            another reason.
    """
    warmup = optimise.warmup_epochs or optimise.warmup_share * optimise.epochs
    rise = min(1.0, position / warmup) if warmup else 1.0
    if optimise.schedule == "cosine":
        # Loshchilov and Hutter 2017, equation 5, without restarts.
        progress = min(1.0, max(0.0, position - warmup) / (optimise.epochs - warmup))
        return rise * 0.5 * (1 + math.cos(math.pi * progress))
    if optimise.schedule == "plateau":
        return rise * _plateau(scores, max(1, optimise.patience // 3))
    return rise


def _plateau(scores: Sequence[float], patience: int) -> float:
    """Return the factor: halved whenever the score has not risen for `patience` epochs."""
    optimiser = SGD([torch.zeros(1)], lr=1.0)
    # One less, since torch waits for one epoch more than its `patience`.
    # Absolute: relative to a score below 0, every equal score would count as a better one.
    # However little a score rises: so little is a better epoch for the checkpoints, too.
    plateau = ReduceLROnPlateau(
        optimiser,
        mode="max",
        factor=0.5,
        patience=patience - 1,
        threshold=0.0,
        threshold_mode="abs",
    )
    for score in scores:
        plateau.step(score)
    return float(optimiser.param_groups[0]["lr"])


class Fitting(LightningModule):
    """Shared part of the runs of both families. A family adds its steps, and calls
    `end_epoch` after the tune split.

    A training step appends its loss, detached, to `step_losses`.
    """

    metrics: ClassVar[tuple[str, ...]] = ("score",)
    """Figures of the tune split that are kept for each epoch; `score` chooses the best, and
    larger is better."""

    network: ClassVar[str] = "model"
    """Name of the module that has all weights, and is called in each step."""

    def __init__(self, optimise: Optimise, losses: FitOptions, section: str = "train") -> None:
        """`section`: of the params, that `optimise` is; for messages."""
        super().__init__()
        self.optimise = optimise
        self.losses = losses
        self.section = section
        self.history: list[dict[str, float]] = []
        self.chosen_from = 0
        """first epoch, counted from 0, that the run may end with: with a curriculum, that
        in which all are drawn"""
        self.record: dict[str, Any] = {}
        """what is known of the run, see `monitor.record`"""
        self.gradient_norm = torch.zeros(())
        """of the last step, before clipping"""
        self.last: Path | None = None
        """where the newest checkpoint is, once there is one"""
        self.alarm = StepAlarm(losses, section)
        self.step_losses: list[Tensor] = []
        self.curves: dict[str, Any] = {}
        """where the run's curves are, see `monitor.loggers`"""
        self.late: list[nn.Parameter] = []
        """parameters that are trained from `late_epoch` on, counted from 0"""
        self.late_epoch = 0.0

    def parameter_counts(self) -> dict[str, int]:
        """Count the trained parameters."""
        return {"trained": sum(p.numel() for p in self.parameters() if p.requires_grad)}

    def on_train_batch_start(self, batch: Any, batch_index: int) -> None:
        """Set the rate, and draw random numbers from seed and place in the run: a resumed
        run has the same ones."""
        place = (self.losses.seed, self.current_epoch, batch_index, self.global_rank)
        number = int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0])
        # Not `torch.manual_seed`, which notes the stack at each call for every kind of device
        # that there is not.
        torch.default_generator.manual_seed(number)
        if self.device.type == "cuda":
            torch.cuda.default_generators[self.device.index].manual_seed(number)
        turns = self.optimise.accumulate
        # In the middle of the step, so that neither the first nor the last goes nowhere.
        progress = (batch_index // turns + 0.5) / (self.trainer.num_training_batches // turns)
        scores = [row["score"] for row in self.history[self.chosen_from :]]
        rate = self.optimise.learning_rate * rate_factor(
            self.optimise, self.current_epoch + progress, scores
        )
        for optimiser in self.trainer.optimizers:
            for group in optimiser.param_groups:
                group["lr"] = rate

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Drop the gradients of the late parameters before their epoch."""
        if self.current_epoch < self.late_epoch:
            for parameter in self.late:
                parameter.grad = None

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip by the norm, and look at it before the weights change.

        Raises:
            InputError: loss or gradient is no finite number.
        """
        self.gradient_norm = clip(self, gradient_clip_val)
        turns = torch.stack(self.step_losses[-self.optimise.accumulate :])
        self.alarm.check_step(
            self.current_epoch, self.global_step, turns.mean(), self.gradient_norm, self.last
        )

    def on_validation_epoch_start(self) -> None:
        """Gather the weights that are scored, where processes share them."""
        if isinstance(self.trainer.strategy, Sharded):
            self.trainer.strategy.gather_weights(self)

    def on_validation_end(self) -> None:
        """Free what was gathered."""
        if isinstance(self.trainer.strategy, Sharded):
            self.trainer.strategy.free_weights(self)

    def end_epoch(self, result: dict[str, float], finite: bool) -> None:
        """Log the figures of the tune split and keep them.

        Args:
            result: `metrics` and more.
            finite: whether all answers were finite numbers.

        Raises:
            InputError: they were not.
        """
        self.alarm.check_answers(self.current_epoch, finite, self.last)
        loss = float(np.mean(gather(float(torch.stack(self.step_losses).mean()))))
        self.step_losses.clear()
        rate = float(self.trainer.optimizers[0].param_groups[0]["lr"])
        self.log_dict({"train/loss": loss, "learning_rate": rate})
        self.log_dict({f"tune/{name}": value for name, value in result.items()})
        epoch = float(self.current_epoch)
        self.history.append({"epoch": epoch, "train_loss": loss, "learning_rate": rate, **result})

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep what a resumed run goes on with: history, batch size (found by the free
        memory), places of curves."""
        data: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        checkpoint |= {
            "history": self.history,
            "batch_size": data.batch_size,
            "curves": self.curves,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the history up again."""
        self.history = list(checkpoint["history"])

    def configure_optimizers(self) -> Optimizer:
        """Return AdamW; its rate is set at each step, see `schedule`."""
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        # One pass over all weights; a scaled loss would have to be dealt with inside of it.
        return AdamW(
            trained,
            lr=self.optimise.learning_rate,
            weight_decay=self.optimise.weight_decay,
            fused=(self.losses.precision != "fp16") or None,
        )
