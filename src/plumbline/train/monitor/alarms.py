"""Stop when a run goes wrong: gradients, losses, answers."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor

from plumbline.core.errors import InputError
from plumbline.params import FitOptions

MOST_LEFT_OUT = 25
"""Largest number of steps in a row that fp16 may leave out. The scale of the loss halves with each:
after so many it is below 1/500."""


class StepAlarm:
    """Checks each step before it changes the weights."""

    def __init__(self, losses: FitOptions, section: str = "train") -> None:
        """Set up the alarm.

        Args:
            losses: `precision` of it counts.
            section: of the params with the run's `learning_rate`.
        """
        self.losses, self.section = losses, section
        self._left_out = 0
        """steps in a row, up to the last one"""

    def check_step(
        self, epoch: int, step: int, loss: Tensor, norm: Tensor, last: Path | None = None
    ) -> None:
        """Check one step.

        Args:
            epoch, step: where the run is, counted from 0.
            loss: of this process's buildings.
            norm: of the gradient, before clipping.
            last: where the run's newest checkpoint is, once there is one.

        Raises:
            InputError: loss or gradient is no finite number.
        """
        pair = torch.stack([loss.float(), norm.float().to(loss.device)])
        loss_value, norm_value = pair.tolist()  # one wait for the GPU
        place = f"at epoch {epoch + 1}, step {step + 1}"
        scaled = self.losses.precision == "fp16"
        overflow = scaled and math.isfinite(loss_value) and not math.isfinite(norm_value)
        if overflow and self._left_out < MOST_LEFT_OUT:
            self._left_out += (
                1  # with a scaled loss it happens now and then; the scaler leaves that step out
            )
            return
        self._left_out = 0
        if not (math.isfinite(loss_value) and math.isfinite(norm_value)):
            raise InputError(
                f"{self.section}: the loss is {loss_value:g} and the gradient's norm "
                f"{norm_value:g} {place}.{_format_place(last)} "
                f"Lower {self.section}.learning_rate, or look for outliers in the data.",
                key="training.diverged",
            )

    def check_answers(self, epoch: int, finite: bool, last: Path | None = None) -> None:
        """Check the answers after an epoch, since its last step has no later check.

        Args:
            epoch: counted from 0.
            finite: whether all of them are finite numbers.
            last: as for `check_step`.

        Raises:
            InputError: they are not.
        """
        if not finite:
            raise InputError(
                f"{self.section}: answers are no finite numbers after epoch {epoch + 1}: its "
                "last step has spoiled "
                f"the weights.{_format_place(last)} Lower {self.section}.learning_rate.",
                key="training.spoiled_weights",
            )


def _format_place(last: Path | None) -> str:
    """Return the sentence with the place of the last epoch's weights; empty in the first epoch."""
    return (
        f" The weights of the epoch before are kept in {last}."
        if last is not None and last.exists()
        else ""
    )
