"""Report the progress of a run: JSON lines, one log line per epoch, figures for TensorBoard
and MLflow."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from torch import Tensor

from plumbline.core.console import log, warn
from plumbline.core.files import atomic_file
from plumbline.train.monitor.record import gpu_share, memory_bytes, memory_share

MOST_MEMORY = 0.85
"""Share of the memory in use, of the GPU or else of the machine, above which a warning is given."""


class EpochLine(Callback):
    """Logs one line per epoch where there is no terminal."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Log the progress of the run and its scores."""
        row = pl_module.history[-1]
        figures = [
            f"{name.replace('_', ' ')} {row[name]:.3f}"
            for name in ("train_loss", *pl_module.metrics)
        ]
        log.info(
            "epoch %d of at most %d: %s", trainer.current_epoch + 1, self.epochs, ", ".join(figures)
        )


class Monitor(Callback):
    """Appends JSON lines to a file, one every `log_every_n_steps` steps and one per epoch,
    and logs the same figures.

    A line holds epoch and step (counted from 1), loss, rate, the gradient's norm before
    clipping, buildings a second of all processes, and memory: the most that this process
    has used (bytes), and the largest share that was in use by anybody. On a GPU also the
    share of the time that it was busy, where the package nvidia-ml-py (extra `gpu`) is
    installed. TensorBoard has the figures of each line, MLflow those of each epoch. A
    warning names the first batch that takes nearly all memory.
    """

    def __init__(self, path: Path, section: str = "train") -> None:
        """Write into `path`; `section`: of the params with the run's `batch_size`."""
        self.path, self.section = path, section
        self._memory = 0.0
        """Largest share of the memory in use so far."""
        self._buildings = 0
        self._step = 0
        """The last one that has a line."""
        self._begun = time.monotonic()
        self._ended: float | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the lines of epochs that are not repeated; drop all lines of an earlier run."""
        if not trainer.is_global_zero or not self.path.exists():
            return
        with atomic_file(self.path) as partial, self.path.open(encoding="utf-8") as lines:
            partial.write_text(
                "".join(line for line in lines if _epoch(line) <= trainer.current_epoch), "utf-8"
            )

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start counting."""
        self._buildings, self._begun, self._ended = 0, time.monotonic(), None

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop the clock: training ends here."""
        self._ended = time.monotonic()

    def on_before_backward(
        self, trainer: Trainer, pl_module: LightningModule, loss: Tensor
    ) -> None:
        """Look at the memory at the peak of a batch: all is computed, and no gradient yet."""
        before, share = self._memory, memory_share(pl_module.device)
        self._memory = max(before, share)
        if before <= MOST_MEMORY < share:
            warn(
                "%s: %.0f %% of the memory is in use. Lower %s.batch_size (%s.accumulate keeps "
                "the step)",
                self.section,
                100 * share,
                self.section,
                self.section,
                key="memory.nearly_full",
            )

    def on_train_batch_end(
        self, trainer: Any, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Write a line every few steps."""
        self._buildings += len(batch.symmetry_B)
        step = trainer.global_step
        if (
            step != self._step and step % trainer.log_every_n_steps == 0
        ):  # batches that add up share their step
            self._step = step
            loss = float(outputs["loss"]) * trainer.accumulate_grad_batches
            figures = self._write(trainer, pl_module, {"kind": "step", "loss": loss})
            for logger in trainer.loggers:
                if isinstance(
                    logger, TensorBoardLogger
                ):  # to tell MLflow takes too long to be done within an epoch
                    logger.log_metrics(
                        {f"monitor/{name}": value for name, value in figures.items()}, step
                    )

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Write the epoch's line."""
        row = dict(pl_module.history[-1])
        row["loss"] = row.pop("train_loss")
        figures = self._write(trainer, pl_module, {"kind": "epoch", **row})
        pl_module.log_dict(
            {f"monitor/{name}": value for name, value in figures.items()}, rank_zero_only=True
        )

    def _write(self, trainer: Trainer, pl_module: Any, line: dict[str, Any]) -> dict[str, float]:
        if not trainer.is_global_zero:
            return {}
        until = self._ended or time.monotonic()
        figures = {
            "gradient_norm": float(pl_module.gradient_norm),
            "samples_per_second": trainer.world_size
            * self._buildings
            / max(until - self._begun, 1e-9),
            "memory_bytes": float(memory_bytes(pl_module.device)),
            "memory_share": self._memory,
        }
        if (busy := gpu_share(pl_module.device)) is not None:
            figures["gpu_share"] = busy
        line |= {
            "epoch": trainer.current_epoch + 1,
            "step": trainer.global_step,
            "learning_rate": trainer.optimizers[0].param_groups[0]["lr"],
            **figures,
        }
        # JSON has no NaN.
        clean = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in line.items()
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(clean, allow_nan=False) + "\n")
        return figures


def _epoch(line: str) -> float:
    """Return the epoch of a line of `Monitor`; infinity for a line cut by a kill."""
    try:
        return float(json.loads(line)["epoch"])
    except ValueError:
        return math.inf
