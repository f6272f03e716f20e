"""Optimise a `Diagnosis` under Lightning: its losses, steps, clipping and evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning import LightningModule
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from plumbline.model.diagnosis import Diagnosis
from plumbline.model.heads import RawAnswer
from plumbline.model.losses import build_losses
from plumbline.params import Optimise, Train
from plumbline.train.data.augment import turn
from plumbline.train.data.batches import Batch
from plumbline.train.data.distributed_sampler import Example, ShareScale
from plumbline.train.distributed.strategies import clip, gather
from plumbline.train.fit.checkpoint_choice import checkpoint_score
from plumbline.train.fit.schedule import rate_factor
from plumbline.train.monitor.alarms import StepAlarm

DISTIL_LEVELS, DISTIL_MECHANISM = 0.5, 0.25
"""What a teacher's levels and mechanisms count as, beside its quadrants."""


def objective(model: Diagnosis, answer: RawAnswer, batch: Batch, losses: Train, scale: ShareScale) -> Tensor:
    """Weighted sum of the losses, each a mean over the share's buildings, scaled to its part of the step."""
    weight_B = batch.weight_B if losses.balance == "weights" else None
    means = build_losses(losses)
    standard_B = model.standard_severity(batch.severity_B)
    where = means.where(answer, batch, weight_B) * scale.quadrant
    return where + means.how_much(answer, batch, standard_B, weight_B) * scale.severity


def distillation_loss(answer: RawAnswer, teacher: Diagnosis, batch: Batch, scale: ShareScale) -> Tensor:
    """How far the answer is from the teacher's: Kullback-Leibler divergence of probabilities, error of severities."""
    with torch.no_grad():
        wanted = teacher.raw(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
    divergence = _divergence(answer.logits_B4, wanted.logits_B4) + DISTIL_LEVELS * _divergence(
        answer.levels_BK, wanted.levels_BK
    )
    accepted = nn.functional.binary_cross_entropy_with_logits(answer.accepted_B4, wanted.accepted_B4.sigmoid())
    divergence = divergence + DISTIL_MECHANISM * _divergence(answer.mechanism_BM, wanted.mechanism_BM) + accepted
    return scale.buildings * (divergence + nn.functional.l1_loss(answer.severity_B3, wanted.severity_B3))


def _divergence(logits: Tensor, wanted: Tensor) -> Tensor:
    return nn.functional.kl_div(logits.log_softmax(-1), wanted.log_softmax(-1), log_target=True, reduction="batchmean")


class Optimisation(LightningModule):
    """Fits `model` to labels and, where there is a `teacher`, to its answers as well."""

    def __init__(
        self,
        model: Diagnosis,
        optimise: Optimise,
        losses: Train,
        teacher: Diagnosis | None = None,
        distil_weight: float = 0.0,
        section: str = "train",
    ) -> None:
        """`section`: of the params, that `optimise` is; for messages."""
        super().__init__()
        self.model = model
        self.optimise = optimise
        self.losses = losses
        self.section = section
        # In a list, so that the teacher is neither trained nor saved.
        self.teacher = [] if teacher is None else [teacher.eval().requires_grad_(False)]
        self.distil_weight = distil_weight
        self.history: list[dict[str, float]] = []
        self.chosen_from = 0
        """first epoch, counted from 0, that the run may end with: with a curriculum, that in which all are drawn"""
        self.record: dict[str, Any] = {}
        """what is known of the run, see `monitor.record`"""
        self.gradient_norm = torch.zeros(())
        """of the last step, before clipping"""
        self.last: Path | None = None
        """where the newest checkpoint is, once there is one"""
        self.alarm = StepAlarm(losses, section)
        self._raw = model.raw
        self._seen: list[tuple[Tensor, ...]] = []
        self._losses: list[Tensor] = []

    def on_fit_start(self) -> None:
        """Bring the teacher to where the model is, and compile the model if that is asked for."""
        # FSDP moves the weights behind the module's back, whose `device` would stay the CPU.
        self._device = self.trainer.strategy.root_device
        for teacher in self.teacher:
            teacher.to(self.device)
        if self.losses.compile:  # the steps alone: evaluation is a small part, and in another precision
            # Lone buildings and scatterers are cases of their own; after the default of 8 torch compiles no more. Its
            # overloads do not name the limit, which it takes.
            self._raw = torch.compile(self.model.raw, dynamic=True, recompile_limit=64)  # type: ignore[call-overload]

    def on_fit_end(self) -> None:
        """Give the teacher back to the CPU, where what comes after training asks it."""
        self._raw = self.model.raw
        for teacher in self.teacher:
            teacher.to("cpu")

    def on_train_batch_start(self, batch: Example, batch_index: int) -> None:
        """Set the rate, and draw random numbers from seed and place in the run: a resumed run has the same ones."""
        place = (self.losses.seed, self.current_epoch, batch_index, self.global_rank)
        number = int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0])
        # Not `torch.manual_seed`, which notes the stack at each call for every kind of device that there is not.
        torch.default_generator.manual_seed(number)
        if self.device.type == "cuda":
            torch.cuda.default_generators[self.device.index].manual_seed(number)
        turns = self.optimise.accumulate
        # In the middle of the step, so that neither the first nor the last goes nowhere.
        done = (batch_index // turns + 0.5) / (self.trainer.num_training_batches // turns)
        scores = [row["score"] for row in self.history[self.chosen_from :]]
        rate = self.optimise.learning_rate * rate_factor(self.optimise, self.current_epoch + done, scores)
        for optimiser in self.trainer.optimizers:
            for group in optimiser.param_groups:
                group["lr"] = rate

    def training_step(self, batch: Example, batch_index: int) -> Tensor:
        """Weighted sum of the losses of one share."""
        share = turn(batch.batch, batch.symmetry_B) if self.losses.augment else batch.batch
        answer = self._raw(share.distance_BLF, share.slope_BLF, share.geometry_BF, share.mask_BL)
        # Sums of losses need more than 16 bit.
        answer = RawAnswer(*(part.float() for part in answer))
        loss = objective(self.model, answer, share, self.losses, batch.scale)
        if self.teacher and self.distil_weight:
            loss = loss + self.distil_weight * distillation_loss(answer, self.teacher[0], share, batch.scale)
        self._losses.append(loss.detach())
        return loss

    def configure_gradient_clipping(
        self, optimizer: Optimizer, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Clip by the norm, and look at it before the weights change.

        Raises:
            InputError: loss or gradient is no finite number, or the norm is beyond a bound that stops the run.
        """
        self.gradient_norm = clip(self, gradient_clip_val)
        turns = torch.stack(self._losses[-self.optimise.accumulate :])
        self.alarm.look(self.current_epoch, self.global_step, turns.mean(), self.gradient_norm, self.last)

    def validation_step(self, batch: Example, batch_index: int) -> None:
        """Answer one batch of the tune split, in float32: so the model is released."""
        share = batch.batch
        if not batch.scale.buildings:
            return
        with torch.autocast(self.device.type, enabled=False):
            answer = self.model(share.distance_BLF, share.slope_BLF, share.geometry_BF, share.mask_BL)
        self._seen.append((answer.quadrant_probability, answer.severity_permille, share.accepted_B4, share.severity_B))

    def on_validation_epoch_end(self) -> None:
        """Score the whole tune split; it is answered at the end of each epoch, after the last training batch."""
        parts = [torch.cat(part).cpu().numpy() for part in zip(*self._seen, strict=True)]
        seen = [part for part in gather(parts) if part]
        probability, severity, accepted_true, severity_true = map(np.concatenate, zip(*seen, strict=True))
        self._seen.clear()
        finite = bool(np.isfinite(probability).all() and np.isfinite(severity).all())
        self.alarm.look_at_answers(self.current_epoch, finite, self.last)
        result = checkpoint_score(probability, severity, accepted_true, severity_true)
        loss = float(np.mean(gather(float(torch.stack(self._losses).mean()))))
        self._losses.clear()
        rate = float(self.trainer.optimizers[0].param_groups[0]["lr"])
        self.log_dict({"train/loss": loss, "learning_rate": rate})
        self.log_dict({f"tune/{name}": value for name, value in result._asdict().items()})
        epoch = float(self.current_epoch)
        self.history.append({"epoch": epoch, "train_loss": loss, "learning_rate": rate, **result._asdict()})

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the history, so that a resumed run's curve is whole."""
        checkpoint["history"] = self.history

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the history up again."""
        self.history = list(checkpoint["history"])

    def configure_optimizers(self) -> Optimizer:
        """AdamW; its rate is set at each step, see `schedule`."""
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        # One pass over all weights; a scaled loss, or weights in parts, would have to be dealt with inside of it.
        fused = self.losses.precision != "fp16" and self.losses.strategy in ("auto", "ddp")
        return AdamW(
            trained, lr=self.optimise.learning_rate, weight_decay=self.optimise.weight_decay, fused=fused or None
        )
