"""Warn or stop when a run goes wrong: gradients, losses, memory."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.params import FitOptions
from plumbline.train.monitor.record import memory_share

MOST_LEFT_OUT = 25
"""Steps in a row that fp16 may leave out. The scale of the loss halves with each: after so many it is below 1/500."""


class StepAlarm:
    """Looks at each step before it changes the weights."""

    def __init__(self, losses: FitOptions, section: str = "train") -> None:
        """Set up the alarm.

        Args:
            losses: `alarms` and `precision` of it count.
            section: of the params with the run's `learning_rate`; `alarms` are always those of `train`.
        """
        self.losses, self.section = losses, section
        self._left_out = 0
        """steps in a row, up to the last one"""
        self._told: int | None = None
        """last epoch that a warning was given in"""

    def look(self, epoch: int, step: int, loss: Tensor, norm: Tensor, last: Path | None = None) -> None:
        """Check one step; warn once an epoch of a gradient norm beyond its bound.

        Args:
            epoch, step: where the run is, counted from 0.
            loss: of this process's buildings.
            norm: of the gradient, before clipping.
            last: where the run's newest checkpoint is, once there is one.

        Raises:
            InputError: loss or gradient is no finite number, or the norm is beyond a bound that stops the run.
        """
        both = torch.stack([loss.float(), norm.float().to(loss.device)])
        loss_found, norm_found = both.tolist()  # one wait for the GPU
        place = f"at epoch {epoch + 1}, step {step + 1}"
        scaled = self.losses.precision == "fp16"
        overflow = scaled and math.isfinite(loss_found) and not math.isfinite(norm_found)
        if overflow and self._left_out < MOST_LEFT_OUT:
            self._left_out += 1  # with a scaled loss it happens now and then; the scaler leaves that step out
            return
        self._left_out = 0
        if not (math.isfinite(loss_found) and math.isfinite(norm_found)):
            raise InputError(
                f"{self.section}: the loss is {loss_found:g} and the gradient's norm {norm_found:g} {place}."
                f"{_kept(last)} Lower {self.section}.learning_rate, or look for values out of all proportion in the "
                "data."
            )
        bound = self.losses.alarms.gradient_norm
        if bound is not None and norm_found > bound and self._told != epoch:
            self._told = epoch
            what = f"the gradient's norm is {norm_found:.3g} {place}, and train.alarms.gradient_norm {bound:g}"
            _raise_alarm(self.losses, what, last, self.section)

    def look_at_answers(self, epoch: int, finite: bool, last: Path | None = None) -> None:
        """Check the answers after an epoch, since its last step has no later check.

        Args:
            epoch: counted from 0.
            finite: whether all of them are finite numbers.
            last: as for `look`.

        Raises:
            InputError: they are not.
        """
        if not finite:
            raise InputError(
                f"{self.section}: answers are no finite numbers after epoch {epoch + 1}: its last step has spoiled "
                f"the weights.{_kept(last)} Lower {self.section}.learning_rate."
            )


class MemoryAlarm(Callback):
    """Checks the memory in every batch at its peak: all is computed, and no gradient yet."""

    def __init__(self, losses: FitOptions, last: Path | None = None, section: str = "train") -> None:
        """Set up the alarm; `last`, `section`: as for `StepAlarm`."""
        self.losses, self.last, self.section = losses, last, section
        self.most = 0.0
        """largest share so far"""

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        """Check `memory_share`, and warn once."""
        before, share, bound = self.most, memory_share(pl_module.device), self.losses.alarms.memory_share
        self.most = max(before, share)
        if before <= bound < share:
            _raise_alarm(
                self.losses,
                f"{share:.0%} of the memory is in use, and train.alarms.memory_share is {bound:g}. Lower "
                f"{self.section}.batch_size ({self.section}.accumulate keeps the step), or set {self.section}.tokens",
                self.last,
                self.section,
            )


def _raise_alarm(losses: FitOptions, what: str, last: Path | None, section: str) -> None:
    if losses.alarms.action == "stop":
        raise InputError(f"{section}: {what}. Stopped, because train.alarms.action is stop.{_kept(last, go_on=True)}")
    log.warning("%s: %s", section, what)


def _kept(last: Path | None, go_on: bool = False) -> str:
    """Say where the last epoch's weights are kept; empty in the first epoch. `go_on`: the run can be resumed."""
    if last is None or not last.exists():
        return ""
    way = " With another bound, or `action: warn`, the same command goes on from there." if go_on else ""
    return f" The weights of the epoch before are kept in {last}.{way}"
