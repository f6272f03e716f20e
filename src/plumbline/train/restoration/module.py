"""Optimise the denoiser: noise is added at a random step, and the network predicts the clean field."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from plumbline.model.restoration.denoiser import FieldDenoiser, count_parameters
from plumbline.model.restoration.diffusion import draws, restore_steps
from plumbline.model.restoration.scores import normal_crps
from plumbline.params.restoration import AdapterFields, TrainFields
from plumbline.train.distributed.strategies import gather
from plumbline.train.fit.fitting import Fitting
from plumbline.train.restoration.crops import FieldBatch

CHARBONNIER = 0.1
"""Where the loss turns from square to linear, in units of the scale (Charbonnier et al. 1994)."""
TUNE_SAMPLES = 2
FAR_WEIGHT = 0.05
"""Of cells too far from scatterers, in the loss."""


class FieldOptimisation(Fitting):
    """Fits a denoiser to scenes.

    The score is one minus the continuous ranked probability score relative to that of the Gaussian process.
    """

    metrics: ClassVar[tuple[str, ...]] = ("score", "rmse_mm", "rmse_ratio")
    network: ClassVar[str] = "model.unet"

    def __init__(self, model: FieldDenoiser, params: TrainFields | AdapterFields, section: str = "train") -> None:
        """Set up the run. `section`: name of the section that `params` is, for messages."""
        super().__init__(params, params, section)
        self.model = model
        self.params: TrainFields | AdapterFields = params
        self._seen: list[NDArrayList] = []

    def parameter_counts(self) -> dict[str, int]:
        """Count all parameters, and the trained ones."""
        return {"total": count_parameters(self.model), **super().parameter_counts()}

    def training_step(self, batch: FieldBatch, batch_index: int) -> Tensor:
        """Return the mean loss of the crops; where the Gaussian process is far off, an example counts less."""
        clean = batch.clean_BFHW
        noise = torch.randn_like(clean)
        last = self.model.spec.train_steps - 1
        step_B = torch.randint(0, last + 1, (len(clean),), device=clean.device)
        alone = torch.rand(len(clean), device=clean.device) < self.params.regression_share
        step_B = torch.where(alone, last, step_B)
        found = self.model(self.model.noisy(clean, noise, step_B), step_B, batch.conditions_BCHW).float()
        weight = batch.near_BHW.clamp_min(FAR_WEIGHT)[:, None]
        weight = weight / weight.mean(dim=(1, 2, 3), keepdim=True)
        size_B = (weight * clean**2).mean(dim=(1, 2, 3)).clamp_min(1.0)
        each_B = (weight * field_loss(found - clean, self.params.loss)).mean(dim=(1, 2, 3))
        loss = (each_B / self._unit(size_B)).mean()
        self.step_losses.append(loss.detach())
        return loss

    def _unit(self, size_B: Tensor) -> Tensor:
        """Return the scale of the loss: the square of the field's size for `mse`, else the size."""
        return size_B if self.params.loss == "mse" else size_B.sqrt()

    def validation_step(self, batch: FieldBatch, batch_index: int) -> None:
        """Restore the middle of each scene with few steps and samples."""
        rng = np.random.default_rng([self.params.seed, batch_index])
        alphas = self.model.alphas.double().cpu().numpy()

        def denoise(field: Any, step: int) -> Any:
            step_B = torch.full((len(field),), step, device=self.device)
            with torch.autocast(self.device.type, enabled=False):
                given = self.model(torch.from_numpy(field).to(self.device), step_B, batch.conditions_BCHW)
            return given.float().cpu().numpy()

        shape = batch.clean_BFHW.shape
        fresh = draws(rng, shape)
        samples = [
            restore_steps(denoise, next(fresh), alphas, self.params.tune_steps, 1.0, fresh) for _ in range(TUNE_SAMPLES)
        ]
        clean, scale = batch.clean_BFHW.cpu().numpy(), batch.scale_BF.cpu().numpy()[:, :, None, None]
        off = [(sample - clean) * scale for sample in samples]
        # Fair for two samples (Ferro 2014): the mean distance to the truth, less half of that to each other.
        crps = (np.abs(off[0]) + np.abs(off[1]) - np.abs(off[0] - off[1])) / 2
        square = ((off[0] + off[1]) / 2) ** 2
        process = normal_crps(clean * scale, batch.deviation_BFHW.cpu().numpy())
        near = batch.near_BHW.cpu().numpy()[:, None]
        share = near / near.mean(axis=(1, 2, 3), keepdims=True).clip(1e-6)
        axes = (1, 2, 3)
        per_scene = [(share * values).mean(axis=axes) for values in (crps, process, square, (clean * scale) ** 2)]
        self._seen.append(per_scene)

    def on_validation_epoch_end(self) -> None:
        """Score the tune split."""
        own = [np.concatenate(part) for part in zip(*self._seen, strict=True)] if self._seen else []
        seen = [part for part in gather(own) if part]
        crps, process, square, missed = (np.concatenate(part) for part in zip(*seen, strict=True))
        self._seen.clear()
        rmse, before = float(np.sqrt(square.mean())), float(np.sqrt(missed.mean()))
        # Scene by scene: one that moves much would outweigh all others.
        score = 1 - float(np.exp(np.log(crps.clip(1e-6) / process.clip(1e-6)).mean()))
        result = {"score": score, "rmse_mm": rmse, "rmse_ratio": rmse / max(before, 1e-9)}
        self.end_epoch(result, bool(np.isfinite(crps).all()))


NDArrayList = list[Any]


def field_loss(error: Tensor, kind: str) -> Tensor:
    """Return the loss of each cell: squared, absolute, or Charbonnier's smooth absolute error."""
    if kind == "mse":
        return error**2
    if kind == "l1":
        return error.abs()
    return (error**2 + CHARBONNIER**2).sqrt() - CHARBONNIER
