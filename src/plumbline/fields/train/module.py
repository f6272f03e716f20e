"""Cut crops, and optimise the denoiser on them."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from lightning import LightningDataModule
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from plumbline.core.errors import InputError
from plumbline.fields.model.denoiser import FieldDenoiser, count_parameters
from plumbline.fields.model.sampling import draws, restore_steps
from plumbline.fields.model.scores import normal_crps
from plumbline.fields.prepare.conditions import (
    CHANNELS,
    FAR_CELLS,
    MIRRORS,
    SceneSet,
    describe,
    mirrored,
    mirrored_field,
)
from plumbline.params.fields import TrainFields
from plumbline.train.distributed.strategies import gather
from plumbline.train.fit.fitting import Fitting

LEVELS = ("easy", "medium", "hard")
TUNE_BATCH = 32
DISTANCE = CHANNELS.index("distance")


class FieldBatch(NamedTuple):
    """Batch of B crops."""

    conditions_BCHW: Tensor
    clean_BFHW: Tensor
    """Truth minus the mean of the Gaussian process, in `scale_BF`."""
    mean_BFHW: Tensor
    """Mean of the Gaussian process, mm."""
    scale_BF: Tensor
    deviation_BFHW: Tensor
    """Standard deviation of the Gaussian process, mm."""
    near_BHW: Tensor
    """1 where a scatterer is within `FAR_CELLS`, else 0."""
    symmetry_B: Tensor


class CropData(LightningDataModule):
    """Training and tune crops of one run."""

    steps_vary = True

    def __init__(self, train: SceneSet, tune: SceneSet, params: TrainFields) -> None:
        """Check scenes and crop size, and set up the data.

        Raises:
            InputError: there is no scene to train on, or to choose by, or the crop is
                larger than they are.
        """
        super().__init__()
        size = train.truth.shape[-1] if len(train) else 0
        if not len(train) or not len(tune):
            raise InputError(
                f"{len(train)} scenes to train on and {len(tune)} to choose by found; one of "
                "each is needed.",
                key="split.empty",
            )
        if params.crop > size:
            raise InputError(
                f"crop: {params.crop} cells found, and scenes have {size}. Give as many or fewer.",
                key="crop.too_large",
            )
        self.train, self.tune, self.params = train, tune, params
        self.batch_size = params.batch_size or 8
        levels = dict(zip(LEVELS, params.curriculum.levels, strict=True))
        self.first = np.array([levels.get(about["level"], 1) - 1 for about in train.about])
        if not (self.first == 0).any():
            raise InputError(
                "curriculum: no scene to draw in epoch 1. Let a level that has scenes begin in "
                "epoch 1.",
                key="curriculum.empty_first_epoch",
            )
        self.complete = int(self.first.max())

    def train_dataloader(self) -> DataLoader[FieldBatch]:
        """Return this process's batches of this epoch."""
        trainer: Any = self.trainer
        # As the trainer itself counts: where a run is gone on with, `current_epoch` is still
        # one behind.
        epoch = trainer.fit_loop.epoch_progress.current.processed
        rows = drawn_rows(self.train, self.params, epoch, np.flatnonzero(self.first <= epoch))
        turns = self.batch_size * trainer.world_size * self.params.accumulate
        rows = rows[: max(1, len(rows) // turns) * turns]
        rows = np.resize(rows, (-(-len(rows) // turns) * turns, 4))
        process_rows = rows.reshape(-1, trainer.world_size, self.batch_size, 4)[
            :, trainer.global_rank
        ]
        return self._loader(self.train, list(process_rows))

    def val_dataloader(self) -> DataLoader[FieldBatch]:
        """Return this process's part of the tune split: the middle of each scene."""
        trainer: Any = self.trainer
        corner = (self.tune.truth.shape[-1] - self.params.crop) // 2
        rows = np.array([(number, corner, corner, 0) for number in range(len(self.tune))], np.int64)
        process_rows = rows[trainer.global_rank :: trainer.world_size]
        batches = [
            process_rows[at : at + TUNE_BATCH] for at in range(0, len(process_rows), TUNE_BATCH)
        ]
        return self._loader(self.tune, batches)

    def _loader(self, scenes: SceneSet, batches: list[NDArray[np.int64]]) -> DataLoader[FieldBatch]:
        """Return a loader of batches, each given by its rows (scene, row, column, mirror)."""
        examples: Any = batches
        return DataLoader(
            examples, batch_size=None, collate_fn=partial(make_batch, scenes, self.params.crop)
        )


def drawn_rows(
    scenes: SceneSet, params: TrainFields, epoch: int, drawn: NDArray[np.intp]
) -> NDArray[np.int64]:
    """Draw (N, 4) scene, row, column and mirror of each example of an epoch, from the seed
    and the epoch alone."""
    rng = np.random.default_rng([params.seed, epoch])
    count = len(drawn) * params.crops_a_scene
    room = scenes.truth.shape[-1] - params.crop + 1
    scene = rng.permutation(np.repeat(drawn, params.crops_a_scene))
    return np.column_stack(
        [scene, rng.integers(0, room, (count, 2)), rng.integers(0, MIRRORS, count)]
    ).astype(np.int64)


def make_batch(scenes: SceneSet, crop: int, rows: NDArray[np.int64]) -> FieldBatch:
    """Cut, mirror and describe the examples `rows`, see `drawn_rows`."""
    examples = []
    for scene, row, column, mirror in rows:
        cut = (slice(None), slice(row, row + crop), slice(column, column + crop))
        maps = mirrored(np.asarray(scenes.maps[scene][cut]), int(mirror))
        truth = mirrored_field(np.asarray(scenes.truth[scene][cut]), int(mirror))
        conditions = describe(maps)
        clean = (truth - conditions.mean) / conditions.scale[:, None, None]
        near = conditions.channels[DISTANCE] < np.log1p(FAR_CELLS) - 1e-3
        examples.append(
            (conditions.channels, clean, conditions.mean, conditions.scale, maps[2:4], near)
        )
    parts = [
        torch.from_numpy(np.stack(part).astype(np.float32)) for part in zip(*examples, strict=True)
    ]
    return FieldBatch(*parts, *[torch.from_numpy(rows[:, 3].copy())])


CHARBONNIER = 0.1
"""Error at which the loss turns from square to linear, in the scale (Charbonnier et al. 1994)."""
TUNE_SAMPLES = 2
FAR_WEIGHT = 0.05
"""Weight, in the loss, of cells too far from scatterers."""


class FieldOptimisation(Fitting):
    """Fits a denoiser to scenes.

    The score is one minus the continuous ranked probability score relative to that of the
    Gaussian process.
    """

    metrics: ClassVar[tuple[str, ...]] = ("score", "rmse_mm", "rmse_ratio")
    network: ClassVar[str] = "model.unet"

    def __init__(self, model: FieldDenoiser, params: TrainFields, section: str = "train") -> None:
        """Set up the run. `section`: name of the section that `params` is, for messages."""
        super().__init__(params, params, section)
        self.model = model
        self.params: TrainFields = params
        self._scene_scores: list[list[Any]] = []

    def parameter_counts(self) -> dict[str, int]:
        """Count all parameters, and the trained ones."""
        return {"total": count_parameters(self.model), **super().parameter_counts()}

    def training_step(self, batch: FieldBatch, batch_index: int) -> Tensor:
        """Return the mean loss of crops; one in which the process errs much counts less."""
        clean = batch.clean_BFHW
        noise = torch.randn_like(clean)
        last = self.model.spec.train_steps - 1
        step_B = torch.randint(0, last + 1, (len(clean),), device=clean.device)
        is_regression = torch.rand(len(clean), device=clean.device) < self.params.regression_share
        step_B = torch.where(is_regression, last, step_B)
        restored = self.model(
            self.model.noisy(clean, noise, step_B), step_B, batch.conditions_BCHW
        ).float()
        weight = batch.near_BHW.clamp_min(FAR_WEIGHT)[:, None]
        weight = weight / weight.mean(dim=(1, 2, 3), keepdim=True)
        size_B = (weight * clean**2).mean(dim=(1, 2, 3)).clamp_min(1.0)
        each_B = (weight * field_loss(restored - clean, self.params.loss)).mean(dim=(1, 2, 3))
        # The scale of the loss: the square of the field's size for `mse`, else the size.
        loss = (each_B / (size_B if self.params.loss == "mse" else size_B.sqrt())).mean()
        self.step_losses.append(loss.detach())
        return loss

    def validation_step(self, batch: FieldBatch, batch_index: int) -> None:
        """Restore the middle of each scene with few steps and samples."""
        rng = np.random.default_rng([self.params.seed, batch_index])
        alphas = self.model.alphas.double().cpu().numpy()

        def denoise(field: Any, step: int) -> Any:
            step_B = torch.full((len(field),), step, device=self.device)
            with torch.autocast(self.device.type, enabled=False):
                clean_BFHW = self.model(
                    torch.from_numpy(field).to(self.device), step_B, batch.conditions_BCHW
                )
            return clean_BFHW.float().cpu().numpy()

        fresh = draws(rng, batch.clean_BFHW.shape)
        samples = [
            restore_steps(
                denoise, next(fresh), alphas, steps=self.params.tune_steps, eta=1.0, fresh=fresh
            )
            for _ in range(TUNE_SAMPLES)
        ]
        clean, scale = (
            batch.clean_BFHW.cpu().numpy(),
            batch.scale_BF.cpu().numpy()[:, :, None, None],
        )
        errors = [(sample - clean) * scale for sample in samples]
        # Fair for two samples (Ferro 2014): the mean distance to the truth, less half of that
        # to each other.
        crps = (np.abs(errors[0]) + np.abs(errors[1]) - np.abs(errors[0] - errors[1])) / 2
        square = ((errors[0] + errors[1]) / 2) ** 2
        process = normal_crps(clean * scale, batch.deviation_BFHW.cpu().numpy())
        near = batch.near_BHW.cpu().numpy()[:, None]
        share = near / near.mean(axis=(1, 2, 3), keepdims=True).clip(1e-6)
        axes = (1, 2, 3)
        per_scene = [
            (share * values).mean(axis=axes)
            for values in (crps, process, square, (clean * scale) ** 2)
        ]
        self._scene_scores.append(per_scene)

    def on_validation_epoch_end(self) -> None:
        """Score the tune split."""
        columns = (
            [np.concatenate(part) for part in zip(*self._scene_scores, strict=True)]
            if self._scene_scores
            else []
        )
        gathered = [part for part in gather(columns) if part]
        crps, process, square, process_square = (
            np.concatenate(part) for part in zip(*gathered, strict=True)
        )
        self._scene_scores.clear()
        rmse, process_rmse = float(np.sqrt(square.mean())), float(np.sqrt(process_square.mean()))
        # Scene by scene: one that moves much would outweigh all others.
        score = 1 - float(np.exp(np.log(crps.clip(1e-6) / process.clip(1e-6)).mean()))
        epoch_metrics = {
            "score": score,
            "rmse_mm": rmse,
            "rmse_ratio": rmse / max(process_rmse, 1e-9),
        }
        self.end_epoch(epoch_metrics, bool(np.isfinite(crps).all()))


def field_loss(error: Tensor, kind: str) -> Tensor:
    """Return the loss of each cell: squared, absolute, or Charbonnier's smooth absolute error."""
    if kind == "mse":
        return error**2
    return error.abs() if kind == "l1" else (error**2 + CHARBONNIER**2).sqrt() - CHARBONNIER
