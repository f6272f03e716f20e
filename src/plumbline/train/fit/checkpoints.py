"""Choose the best checkpoint, keep the newest, and resume."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from numpy.typing import NDArray

from plumbline.core.compass import of_likeliest
from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.train.distributed.strategies import process_number
from plumbline.train.fit.initial_weights import CHECKPOINT

MIN_BLIND_PERMILLE = 0.05
"""Smallest error of the best constant answer, permille, in the score. Where severities are equal,
or there is one building, any error is many times theirs, and would decide the score alone. Splits
of simulated cities have some twenty times as much."""


class Checkpoint(ModelCheckpoint):
    """Lightning's checkpoint, in a folder that may have moved before the run is resumed."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state, wherever the files were."""
        super().load_state_dict({**state_dict, "dirpath": self.dirpath})


class FromEpoch(Callback):
    """Ignores the scores before the epoch `first`, counted from 0."""

    def __init__(self, first: int, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.first = first

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check the epoch's score."""
        if trainer.current_epoch >= self.first:
            super().on_train_epoch_end(trainer, pl_module)


class Best(FromEpoch, Checkpoint):
    """Keeps the best epoch."""


class Patience(FromEpoch, EarlyStopping):
    """Stops when the score no longer rises."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop a resumed run at once if it had stopped before it was killed."""
        if self.wait_count >= self.patience:
            trainer.should_stop = True


class SplitScore(NamedTuple):
    """Accuracy of the answers of a split."""

    quadrant_accuracy: float
    """Share of right quadrants among the buildings from category 1 up; 0 where there is none."""
    severity_mae: float
    """Mean absolute error, permille, over all buildings."""
    score: float
    """Accuracy minus the error relative to that of the best constant answer. Perfect: 1;
    answering blindly: -0.75."""


def checkpoint_score(
    probability: NDArray[np.floating],
    severity: NDArray[np.floating],
    accepted_true: NDArray[np.bool_],
    severity_true: NDArray[np.floating],
) -> SplitScore:
    """Compare answers with labels.

    Args:
        probability: (B, 4). severity: (B,) permille. accepted_true: (B, 4) right answers.
            severity_true: (B,) permille.
    """
    defined = accepted_true.any(1)
    is_right = of_likeliest(probability, accepted_true)[defined]
    accuracy = float(is_right.mean()) if defined.any() else 0.0
    error = float(np.abs(severity - severity_true).mean())
    constant_error = float(np.abs(severity_true - np.median(severity_true)).mean())
    return SplitScore(accuracy, error, accuracy - error / max(constant_error, MIN_BLIND_PERMILLE))


BEST, LAST = "best", "last"
"""Names of the checkpoints, without their suffix."""
FREE = ("profile", "strategy", "devices", "nodes")
"""Keys of section `train` that change no weight: with others a run is gone on with."""


def resumed(folder: Path, name: str, start_from: Sequence[str]) -> dict[str, Any] | None:
    """Return the content of the checkpoint to resume from, if one exists and is wanted.

    Raises:
        InputError: nothing but a checkpoint is wanted, and there is none.
    """
    if CHECKPOINT not in start_from:
        if not process_number():
            shutil.rmtree(folder, ignore_errors=True)
        return None
    content = _usable(folder / f"{LAST}.ckpt")
    if (
        content is not None
        and _has_best(content)
        and _usable(best := folder / f"{BEST}.ckpt") is None
    ):
        warn(
            "%s, the best epoch so far, cannot be used; training starts from the beginning",
            best,
            key="checkpoint.best_unusable",
        )
        content = None
    if content is not None:
        log.info(
            "%s: resuming from the checkpoint of an interrupted run, after epoch %d",
            name,
            content["epoch"] + 1,
        )
    elif list(start_from) == [CHECKPOINT]:
        raise InputError(
            "train.start_from: checkpoint found, and no run with these data and params was "
            "interrupted.",
            key="start_from.no_checkpoint",
        )
    elif not process_number():
        for interrupted in sorted(
            {path.parent for path in folder.parent.glob(f"{name}-*/{LAST}.ckpt")} - {folder}
        ):
            log.info(
                "%s: an interrupted run in %s is not gone on with: it had other data, params or "
                "first weights. Remove "
                "the folder if it is not wanted",
                name,
                interrupted,
            )
    return content


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint."""
    with zipfile.ZipFile(path) as parts:
        if changed := parts.testzip():  # torch does not look at the sums that it has written
            raise zipfile.BadZipFile(f"{changed} is not as it was written")
    content: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    return content


def _has_best(content: dict[str, Any]) -> bool:
    """Return whether a best epoch so far has its own checkpoint."""
    states = content.get("callbacks", {})
    return any(Path(state.get("best_model_path", "")).stem == BEST for state in states.values())


def _usable(path: Path) -> dict[str, Any] | None:
    """Return the content of a readable checkpoint, else None."""
    if not path.exists():
        return None
    try:
        return read_checkpoint(path)
    except MemoryError:
        raise  # of this machine, and not of the file
    except Exception as error:  # a half-written archive fails in many ways; each means: start again
        warn(
            "%s: not readable (%s); training starts from the beginning",
            path,
            error or type(error).__name__,
            key="checkpoint.unreadable",
        )
        return None
