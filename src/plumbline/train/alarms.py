"""What tells that a run is not well, and what follows."""

from __future__ import annotations

from typing import Any

import torch
from lightning import Callback, LightningModule
from torch import Tensor

from plumbline.console import log
from plumbline.errors import InputError
from plumbline.params import Train
from plumbline.train.memory import memory_share


def check_step(losses: Train, epoch: int, step: int, loss: Tensor, norm: Tensor) -> None:
    """Look at one step before it changes the weights.

    Args:
        losses: `alarms` and `precision` of it count.
        epoch, step: where the run is, counted from 0.
        loss: of this process's buildings.
        norm: of the gradient, before clipping.

    Raises:
        InputError: loss or gradient is no finite number, or the norm is beyond a bound that stops the run.
    """
    loss_found, norm_found = torch.stack([loss.float(), norm.float().to(loss.device)]).tolist()  # one wait for the GPU
    place = f"at epoch {epoch + 1}, step {step + 1}"
    # With scaled losses a gradient overflows now and then; the scaler leaves that step out.
    finite = torch.isfinite(torch.tensor([loss_found] if losses.precision == "fp16" else [loss_found, norm_found]))
    if not finite.all():
        raise InputError(
            f"train: the loss is {loss_found:g} and the gradient's norm {norm_found:g} {place}. The weights of the "
            "epoch before are kept. Lower train.learning_rate, or look for values out of all proportion in the data."
        )
    bound = losses.alarms.gradient_norm
    if bound is not None and norm_found > bound:
        _raise_alarm(
            losses, f"the gradient's norm is {norm_found:.3g} {place}, and train.alarms.gradient_norm {bound:g}"
        )


class MemoryAlarm(Callback):
    """Looks at the memory after each epoch and every `log_every_n_steps` steps."""

    def __init__(self, losses: Train) -> None:
        self.losses = losses
        self.told = False

    def on_train_batch_end(self, trainer: Any, pl_module: LightningModule, *_: object) -> None:
        """See `memory_share`; a warning is given once."""
        if trainer.fit_loop.epoch_loop.batch_idx % trainer.log_every_n_steps or self.told:
            return
        share, bound = memory_share(pl_module.device), self.losses.alarms.memory_share
        if share > bound:
            self.told = True
            _raise_alarm(
                self.losses,
                f"{share:.0%} of the memory is in use, and train.alarms.memory_share is {bound:g}. Lower "
                "train.batch_size (train.accumulate keeps the step), or set train.tokens",
            )


def _raise_alarm(losses: Train, what: str) -> None:
    if losses.alarms.action == "stop":
        raise InputError(f"train: {what}. Stopped, because train.alarms.action is stop; the epoch before is kept.")
    log.warning("train: %s", what)
