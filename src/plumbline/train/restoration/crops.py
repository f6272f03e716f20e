"""Give Lightning random crops of scenes, new ones in each epoch, for each process."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from lightning import LightningDataModule
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from plumbline.core.errors import InputError
from plumbline.params.restoration import AdapterFields, TrainFields
from plumbline.prepare.restoration.conditions import (
    CHANNELS,
    FAR_CELLS,
    MIRRORS,
    describe,
    mirrored,
    mirrored_field,
)
from plumbline.prepare.restoration.scenes import SceneSet

LEVELS = ("easy", "medium", "hard")
TUNE_BATCH = 32
DISTANCE = CHANNELS.index("distance")


class FieldBatch(NamedTuple):
    """Batch of B crops."""

    conditions_BCHW: Tensor
    clean_BFHW: Tensor
    """What the Gaussian process misses, in `scale_BF`."""
    mean_BFHW: Tensor
    """Of the Gaussian process, mm."""
    scale_BF: Tensor
    deviation_BFHW: Tensor
    """Of the Gaussian process, mm."""
    near_BHW: Tensor
    """1 where a scatterer is near enough to tell anything, else 0."""
    symmetry_B: Tensor


class Crops(Dataset[FieldBatch]):
    """Batches by number: crop origin, scene and mirror of each example are given."""

    def __init__(self, scenes: SceneSet, crop: int, batches: list[NDArray[np.int64]]) -> None:
        """Keep the scenes; `batches`: of rows (scene, row, column, mirror)."""
        self.scenes, self.crop, self.batches = scenes, crop, batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> FieldBatch:
        return make_batch(self.scenes, self.crop, self.batches[number])


class CropData(LightningDataModule):
    """Training and tune crops of one run."""

    steps_vary = True

    def __init__(self, train: SceneSet, tune: SceneSet, params: TrainFields | AdapterFields) -> None:
        """Check scenes and crop size, and set up the data.

        Raises:
            InputError: there is no scene to train on, or to choose by, or the crop is larger than they are.
        """
        super().__init__()
        size = train.truth.shape[-1] if len(train) else 0
        if not len(train) or not len(tune):
            raise InputError(
                f"{len(train)} scenes to train on and {len(tune)} to choose by found; one of each is needed."
            )
        if params.crop > size:
            raise InputError(f"crop: {params.crop} cells found, and scenes have {size}. Give as many or fewer.")
        self.train, self.tune, self.params = train, tune, params
        self.batch_size = params.batch_size or 8
        levels = dict(zip(LEVELS, params.curriculum.levels, strict=True))
        self.first = np.array([levels.get(about["level"], 1) - 1 for about in train.about])
        if not (self.first == 0).any():
            raise InputError("curriculum: no scene to draw in epoch 1. Let a level that has scenes begin in epoch 1.")
        self.complete = int(self.first.max())

    def train_dataloader(self) -> DataLoader[FieldBatch]:
        """Return this process's batches of this epoch."""
        trainer: Any = self.trainer
        # As the trainer itself counts: where a run is gone on with, `current_epoch` is still one behind.
        epoch = trainer.fit_loop.epoch_progress.current.processed
        rows = drawn_rows(self.train, self.params, epoch, np.flatnonzero(self.first <= epoch))
        turns = self.batch_size * trainer.world_size * self.params.accumulate
        rows = rows[: max(1, len(rows) // turns) * turns]
        rows = np.resize(rows, (-(-len(rows) // turns) * turns, 4))
        own = rows.reshape(-1, trainer.world_size, self.batch_size, 4)[:, trainer.global_rank]
        return DataLoader(Crops(self.train, self.params.crop, list(own)), batch_size=None)

    def val_dataloader(self) -> DataLoader[FieldBatch]:
        """Return this process's part of the tune split: the middle of each scene."""
        trainer: Any = self.trainer
        corner = (self.tune.truth.shape[-1] - self.params.crop) // 2
        rows = np.array([(number, corner, corner, 0) for number in range(len(self.tune))], np.int64)
        own = rows[trainer.global_rank :: trainer.world_size]
        batches = [own[at : at + TUNE_BATCH] for at in range(0, len(own), TUNE_BATCH)]
        return DataLoader(Crops(self.tune, self.params.crop, batches), batch_size=None)


def drawn_rows(
    scenes: SceneSet, params: TrainFields | AdapterFields, epoch: int, drawn: NDArray[np.intp]
) -> NDArray[np.int64]:
    """Draw (N, 4) scene, row, column and mirror of each example of an epoch, from the seed and the epoch alone."""
    rng = np.random.default_rng([params.seed, epoch])
    count = len(drawn) * params.crops_a_scene
    room = scenes.truth.shape[-1] - params.crop + 1
    scene = rng.permutation(np.repeat(drawn, params.crops_a_scene))
    return np.column_stack([scene, rng.integers(0, room, (count, 2)), rng.integers(0, MIRRORS, count)]).astype(np.int64)


def make_batch(scenes: SceneSet, crop: int, rows: NDArray[np.int64]) -> FieldBatch:
    """Cut, mirror and describe the examples `rows`, see `drawn_rows`."""
    found = []
    for scene, row, column, mirror in rows:
        cut = (slice(None), slice(row, row + crop), slice(column, column + crop))
        maps = mirrored(np.asarray(scenes.maps[scene][cut]), int(mirror))
        truth = mirrored_field(np.asarray(scenes.truth[scene][cut]), int(mirror))
        told = describe(maps)
        clean = (truth - told.mean) / told.scale[:, None, None]
        near = told.channels[DISTANCE] < np.log1p(FAR_CELLS) - 1e-3
        found.append((told.channels, clean, told.mean, told.scale, maps[2:4], near))
    parts = [torch.from_numpy(np.stack(part).astype(np.float32)) for part in zip(*found, strict=True)]
    return FieldBatch(*parts, *[torch.from_numpy(rows[:, 3].copy())])
