"""The optimisation of a `Diagnosis` under Lightning."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from lightning import LightningModule
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import ReduceLROnPlateau

from plumbline.model.diagnosis import Diagnosis
from plumbline.model.losses import quadrant_loss, severity_loss
from plumbline.params import Optimise, Train
from plumbline.train.augment import random_symmetries
from plumbline.train.batches import Batch
from plumbline.train.score import score


class Optimisation(LightningModule):
    """Fits `model` to labels and, where there is a `teacher`, to its answers as well."""

    def __init__(
        self,
        model: Diagnosis,
        optimise: Optimise,
        losses: Train,
        teacher: Diagnosis | None = None,
        distil_weight: float = 0.0,
    ) -> None:
        super().__init__()
        self.model = model
        self.optimise = optimise
        self.losses = losses
        # In a list, so that the teacher is neither trained nor saved.
        self.teacher = [] if teacher is None else [teacher.eval().requires_grad_(False)]
        self.distil_weight = distil_weight
        self.history: list[dict[str, float]] = []
        self._seen: list[tuple[Tensor, ...]] = []
        self._losses: list[Tensor] = []

    def on_fit_start(self) -> None:
        """Bring the teacher to where the model is."""
        for teacher in self.teacher:
            teacher.to(self.device)

    def on_train_batch_start(self, batch: Batch, batch_index: int) -> None:
        """Draw each step's random numbers from the seed and the step: a resumed run draws the same ones."""
        state = np.random.SeedSequence((self.losses.seed, self.global_step)).generate_state(1, np.uint64)
        torch.manual_seed(int(state[0]))

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        """Weighted sum of the losses of one batch."""
        batch = Batch(*batch)
        if self.losses.augment:
            batch = random_symmetries(batch)
        inputs = (batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
        answer = self.model.raw(*inputs)
        weight_B = batch.weight_B if self.losses.balance == "weights" else None
        loss = self.losses.quadrant_weight * quadrant_loss(answer, batch.quadrant_B, weight_B)
        loss = loss + self.losses.severity_weight * severity_loss(
            answer, self.model.standard_severity(batch.severity_B), weight_B
        )
        if self.teacher and self.distil_weight:
            with torch.no_grad():
                wanted = self.teacher[0].raw(*inputs)
            follow = nn.functional.kl_div(
                answer.logits_B4.log_softmax(-1),
                wanted.logits_B4.log_softmax(-1),
                log_target=True,
                reduction="batchmean",
            )
            loss = loss + self.distil_weight * (follow + nn.functional.l1_loss(answer.severity_B3, wanted.severity_B3))
        self._losses.append(loss.detach())
        return loss

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        """Answer one batch of the tune split."""
        batch = Batch(*batch)
        answer = self.model(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
        self._seen.append((answer.quadrant_probability, answer.severity_permille, batch.quadrant_B, batch.severity_B))

    def on_validation_epoch_end(self) -> None:
        """Score the whole tune split; it is answered at the end of each epoch, after the last training batch."""
        probability, severity, quadrant_true, severity_true = (
            torch.cat(part).cpu().numpy() for part in zip(*self._seen, strict=True)
        )
        self._seen.clear()
        result = score(probability, severity, quadrant_true, severity_true)
        loss = float(torch.stack(self._losses).mean())
        self._losses.clear()
        rate = float(self.trainer.optimizers[0].param_groups[0]["lr"])
        self.log_dict({"train/loss": loss, "learning_rate": rate})
        self.log_dict({f"tune/{name}": value for name, value in result._asdict().items()})
        epoch = float(self.current_epoch)
        self.history.append({"epoch": epoch, "train_loss": loss, "learning_rate": rate, **result._asdict()})

    def on_train_epoch_end(self) -> None:
        """Adapt the rate before the checkpoint is written; the trainer would do it after."""
        self.plateau.step(self.history[-1]["score"])

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the history, so that a resumed run's curve is whole."""
        checkpoint["history"] = self.history

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the history up again."""
        self.history = list(checkpoint["history"])

    def configure_optimizers(self) -> Any:
        """AdamW; the rate halves when the tune score has not risen for a third of the patience."""
        optimiser = AdamW(
            self.model.parameters(), lr=self.optimise.learning_rate, weight_decay=self.optimise.weight_decay
        )
        self.plateau = ReduceLROnPlateau(
            optimiser, mode="max", factor=0.5, patience=max(1, self.optimise.patience // 3)
        )
        for row in self.history:  # of a resumed run
            self.plateau.step(row["score"])
        return optimiser
