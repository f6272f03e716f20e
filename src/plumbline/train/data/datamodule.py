"""Give Lightning the data of a run: shares of training steps, and the tune split, for each
process."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from lightning import LightningDataModule
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from plumbline.core.console import warn
from plumbline.core.errors import InputError
from plumbline.model.losses import build_losses
from plumbline.params import Optimise, Train
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.balance import building_weights
from plumbline.train.data.batches import BuildingSet, SimilarLengths
from plumbline.train.data.sampler import Example, Examples, ShareSampler
from plumbline.train.distributed.strategies import gather

TUNE_BATCH = 512
"""Buildings a batch of one process in evaluation."""
AHEAD = 2
"""Processes that make the next batches while a GPU is at the present one; on a CPU they
would only take its cores."""


class Data(LightningDataModule):
    """Training and tune split of one run."""

    def __init__(
        self,
        train: SequenceSet,
        tune: SequenceSet,
        optimise: Optimise,
        losses: Train,
        *,
        seed: int,
        batch_size: int,
        resumed: bool = False,
        section: str = "train",
    ) -> None:
        """Keep data and sections; the batch size is set later.

        Args:
            train, tune, optimise, losses, seed: of the run.
            batch_size: buildings a share; of several processes the least counts.
            resumed: whether this process goes on from a checkpoint.
            section: of the params, that `optimise` is; for messages.

        Raises:
            InputError: the curriculum has nothing to begin with.
        """
        super().__init__()
        self.train, self.tune, self.optimise, self.losses = train, tune, optimise, losses
        self.seed, self.batch_size, self.resumed = seed, batch_size, resumed
        self.section = section
        self.first_epoch = first_epochs(train, optimise, section)
        self.complete = 0 if self.first_epoch is None else int(self.first_epoch.max())
        """the first epoch, counted from 0, in which all buildings are drawn"""
        self.steps_vary = self.complete > 0
        """whether epochs may differ in their number of steps"""
        if self.complete < optimise.curriculum.complete:
            warn(
                "%s.curriculum: no building is of a level that begins after epoch %d; from then "
                "on all are drawn.",
                section,
                self.complete + 1,
                key="curriculum.no_later_level",
            )
        self.weight: NDArray[np.float32] | None = None
        if losses.balance == "oversample":
            self.weight = building_weights(
                np.asarray(train.severity), np.asarray(train.quadrant), losses
            )

    def setup(self, stage: str) -> None:
        """Agree on the start and on one batch size.

        Raises:
            InputError: some of the processes found a checkpoint to go on from, and others did not.
        """
        if len(set(gather(self.resumed))) > 1:
            instead = (
                ", or leave `checkpoint` out of train.start_from" if self.section == "train" else ""
            )
            raise InputError(
                f"{self.section}: some of the processes found a checkpoint of this run, and "
                "others did not. Let "
                f".plumbline of all machines be one shared folder{instead}.",
                key="checkpoint.not_shared",
            )
        self.tables = (BuildingSet(self.train, self.losses), BuildingSet(self.tune, None))
        trainer: Any = self.trainer
        # Found by free memory, it may differ; with different ones the processes would wait
        # for each other for ever.
        self.batch_size = min(gather(self.batch_size))
        self.ahead: dict[str, Any] = {}
        if trainer.strategy.root_device.type == "cuda":
            self.ahead = {
                "num_workers": AHEAD,
                "pin_memory": True,
                "worker_init_fn": forget_the_end,
            }

    def train_dataloader(self) -> DataLoader[Example]:
        """Return this process's shares of this epoch's steps."""
        trainer: Any = self.trainer
        steps = SimilarLengths(
            self.tables[0].length,
            self.batch_size,
            self.seed,
            self.weight,
            shares=self.optimise.accumulate * trainer.world_size,
            first_epoch=self.first_epoch,
        )
        # As the trainer itself counts for samplers: where a run is gone on with,
        # `current_epoch` is still one behind.
        steps.set_epoch(trainer.fit_loop.epoch_progress.current.processed)
        deal = ShareSampler(
            steps, self.optimise.accumulate, trainer.global_rank, trainer.world_size
        )
        examples = Examples(
            self.tables[0], steps, self.losses.augment, build_losses(self.losses).quadrant
        )
        return DataLoader(examples, sampler=deal, batch_size=None, **self.ahead)

    def val_dataloader(self) -> DataLoader[Example]:
        """Return this process's part of the tune split."""
        trainer: Any = self.trainer
        steps = SimilarLengths(self.tables[1].length, TUNE_BATCH, None, shares=trainer.world_size)
        deal = ShareSampler(steps, 1, trainer.global_rank, trainer.world_size)
        examples = Examples(self.tables[1], steps, augment=False)
        return DataLoader(examples, sampler=deal, batch_size=None, **self.ahead)


def forget_the_end(worker: int) -> None:
    """Drop what libraries would do at the end of the process that this worker is a fork of.

    It is not the worker's: Prefect's queues, without the threads that a fork lacks, fail
    there and end it with 1.
    """
    threading._threading_atexits.clear()  # type: ignore[attr-defined]


def first_epochs(
    train: SequenceSet, optimise: Optimise, section: str = "train"
) -> NDArray[np.int32] | None:
    """Return (B,) the epoch, from 0, in which each building is first drawn; None: all from
    the first.

    Raises:
        InputError: there is none for the first epoch.
    """
    levels = np.array(optimise.curriculum.levels, dtype=np.int32)
    if (levels == 1).all():
        return None
    difficulty = np.asarray(train.difficulty)
    first = np.where(difficulty < 0, 0, levels[difficulty] - 1).astype(np.int32)
    if not (first == 0).any():
        counts = {
            name: int((difficulty == code).sum())
            for code, name in enumerate(("easy", "medium", "hard"))
        }
        raise InputError(
            f"{section}.curriculum: no building to draw in epoch 1 (in the training split: "
            f"{counts}). Let a level that has buildings begin in epoch 1.",
            key="curriculum.empty_first_epoch",
        )
    return first
