"""Score the answers of an epoch, keep the best checkpoint, and stop when the score no longer rises."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from numpy.typing import NDArray

from plumbline.core.compass import of_likeliest

LEAST_BLIND_PERMILLE = 0.05
"""Error of the best constant answer that counts at least: where severities are equal, or there is one building, any
error is many times theirs, and the score would say nothing else. Splits of simulated cities have some twenty times
as much."""


class Checkpoint(ModelCheckpoint):
    """Lightning's checkpoint, in a folder that may have moved before the run is resumed."""

    @property
    def state_key(self) -> str:
        """Return Lightning's own name, so that checkpoints of former versions can be resumed."""
        return super().state_key.replace(type(self).__name__, ModelCheckpoint.__name__, 1)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state, with each file by its name in the present folder."""

        def here(path: str) -> str:
            return str(Path(str(self.dirpath)) / Path(path).name) if path else path

        paths = ("best_model_path", "kth_best_model_path", "last_model_path")
        best = {here(path): score for path, score in state_dict["best_k_models"].items()}
        moved = {name: here(state_dict[name]) for name in paths}
        super().load_state_dict({**state_dict, **moved, "best_k_models": best, "dirpath": self.dirpath})


class Best(Checkpoint):
    """Keeps the best epoch from `first` on, counted from 0."""

    def __init__(self, first: int, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.first = first

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check the epoch's score."""
        if trainer.current_epoch >= self.first:
            super().on_train_epoch_end(trainer, pl_module)


class Patience(EarlyStopping):
    """Stops when the score no longer rises; every epoch before `first`, counted from 0, is run."""

    def __init__(self, first: int, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.first = first

    @property
    def state_key(self) -> str:
        """Return Lightning's own name, as `Checkpoint.state_key`."""
        return super().state_key.replace(type(self).__name__, EarlyStopping.__name__, 1)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop a resumed run at once if it had stopped before it was killed."""
        if self.wait_count >= self.patience:
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check the epoch's score."""
        if trainer.current_epoch >= self.first:
            super().on_train_epoch_end(trainer, pl_module)


class SplitScore(NamedTuple):
    """Accuracy of the answers of a split."""

    quadrant_accuracy: float
    """Share of right quadrants among the buildings from category 1 up; 0 where there is none."""
    severity_mae: float
    """Mean absolute error, permille, over all buildings."""
    score: float
    """Accuracy minus the error relative to that of the best constant answer. Perfect: 1; answering blindly: -0.75."""


def checkpoint_score(
    probability: NDArray[np.floating],
    severity: NDArray[np.floating],
    accepted_true: NDArray[np.bool_],
    severity_true: NDArray[np.floating],
) -> SplitScore:
    """Compare answers with labels.

    Args:
        probability: (B, 4). severity: (B,) permille. accepted_true: (B, 4) right answers. severity_true: (B,) permille.
    """
    defined = accepted_true.any(1)
    hits = of_likeliest(probability, accepted_true)[defined]
    accuracy = float(hits.mean()) if defined.any() else 0.0
    error = float(np.abs(severity - severity_true).mean())
    blind = float(np.abs(severity_true - np.median(severity_true)).mean())
    return SplitScore(accuracy, error, accuracy - error / max(blind, LEAST_BLIND_PERMILLE))
