"""Which epochs a run may end with: the best of them is kept, and patience begins with the first of them."""

from __future__ import annotations

from typing import Any

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint


class Best(ModelCheckpoint):
    """Keeps the best epoch from `first` on, counted from 0."""

    def __init__(self, first: int, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.first = first

    @property
    def state_key(self) -> str:
        """As Lightning names it, so that checkpoints of former versions are resumed from."""
        return super().state_key.replace(type(self).__name__, ModelCheckpoint.__name__, 1)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Look at the epoch's score."""
        if trainer.current_epoch >= self.first:
            super().on_train_epoch_end(trainer, pl_module)


class Patience(EarlyStopping):
    """Stops when the score rises no more; every epoch before `first`, counted from 0, is run."""

    def __init__(self, first: int, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.first = first

    @property
    def state_key(self) -> str:
        """As `Best.state_key`."""
        return super().state_key.replace(type(self).__name__, EarlyStopping.__name__, 1)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A run that had stopped, and was killed before its results were written, is not gone on with."""
        if self.wait_count >= self.patience:
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Look at the epoch's score."""
        if trainer.current_epoch >= self.first:
            super().on_train_epoch_end(trainer, pl_module)
