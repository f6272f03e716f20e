"""Optimise a `Diagnosis` under Lightning: its losses, steps, clipping and evaluation."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from plumbline.model.diagnosis import Diagnosis
from plumbline.model.losses import build_losses
from plumbline.model.network import RawAnswer, count_parameters
from plumbline.params import Optimise, Train
from plumbline.train.data.batches import Batch
from plumbline.train.data.sampler import Example, ShareScale, turn
from plumbline.train.distributed.strategies import gather
from plumbline.train.fit.checkpoints import checkpoint_score
from plumbline.train.fit.fitting import Fitting

DISTIL_LEVELS, DISTIL_MECHANISM = 0.5, 0.25
"""Weights of a teacher's levels and mechanisms, relative to its quadrants."""


def objective(
    model: Diagnosis, answer: RawAnswer, batch: Batch, losses: Train, scale: ShareScale
) -> Tensor:
    """Return the weighted sum of the losses, each a mean over the share's buildings, scaled
    to its part of the step."""
    weight_B = batch.weight_B if losses.balance == "weights" else None
    means = build_losses(losses)
    standard_B = model.standard_severity(batch.severity_B)
    damaged = means.over_damaged(answer, batch, weight_B) * scale.quadrant
    return damaged + means.over_all(answer, batch, standard_B, weight_B) * scale.severity


def distillation_loss(
    answer: RawAnswer, teacher: Diagnosis, batch: Batch, scale: ShareScale
) -> Tensor:
    """Return the distance from the teacher's answer: KL divergence of probabilities, error
    of severities."""
    with torch.no_grad():
        target = teacher.raw(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
    divergence = _divergence(answer.logits_B4, target.logits_B4) + DISTIL_LEVELS * _divergence(
        answer.levels_BK, target.levels_BK
    )
    accepted = nn.functional.binary_cross_entropy_with_logits(
        answer.accepted_B4, target.accepted_B4.sigmoid()
    )
    divergence = (
        divergence
        + DISTIL_MECHANISM * _divergence(answer.mechanism_BM, target.mechanism_BM)
        + accepted
    )
    return scale.buildings * (
        divergence + nn.functional.l1_loss(answer.severity_B3, target.severity_B3)
    )


def _divergence(logits: Tensor, target: Tensor) -> Tensor:
    return nn.functional.kl_div(
        logits.log_softmax(-1), target.log_softmax(-1), log_target=True, reduction="batchmean"
    )


class Optimisation(Fitting):
    """Fits `model` to labels and, where there is a `teacher`, to its answers as well."""

    metrics = ("score", "quadrant_accuracy", "severity_mae")
    network = "model.network"

    def __init__(
        self,
        model: Diagnosis,
        optimise: Optimise,
        losses: Train,
        *,
        teacher: Diagnosis | None = None,
        distil_weight: float = 0.0,
        section: str = "train",
    ) -> None:
        """`section`: of the params, that `optimise` is; for messages."""
        super().__init__(optimise, losses, section)
        self.model = model
        self.losses: Train = losses
        # In a list, so that the teacher is neither trained nor saved.
        self.teacher = [] if teacher is None else [teacher.eval().requires_grad_(False)]
        self.distil_weight = distil_weight
        self._raw = model.raw
        self._judged: list[tuple[Tensor, ...]] = []

    def parameter_counts(self) -> dict[str, int]:
        """Count the parameters by part of the network, and the trained ones."""
        return {**count_parameters(self.model.network), **super().parameter_counts()}

    def on_fit_start(self) -> None:
        """Move the teacher to the model's device, and compile the model with `train.compile`."""
        for teacher in self.teacher:
            teacher.to(self.device)
        if (
            self.losses.compile
        ):  # the steps alone: evaluation is a small part, and in another precision
            # Lone buildings and scatterers are cases of their own; after the default of 8
            # torch compiles no more. Its overloads do not name the limit, which it takes.
            self._raw = torch.compile(self.model.raw, dynamic=True, recompile_limit=64)  # type: ignore[call-overload]

    def on_fit_end(self) -> None:
        """Move the teacher back to the CPU, where it is used after training."""
        self._raw = self.model.raw
        for teacher in self.teacher:
            teacher.to("cpu")

    def training_step(self, batch: Example, batch_index: int) -> Tensor:
        """Return the weighted sum of the losses of one share."""
        share = turn(batch.batch, batch.symmetry_B) if self.losses.augment else batch.batch
        answer = self._raw(share.distance_BLF, share.slope_BLF, share.geometry_BF, share.mask_BL)
        # Sums of losses need more than 16 bit.
        answer = RawAnswer(*(part.float() for part in answer))
        loss = objective(self.model, answer, share, self.losses, batch.scale)
        if self.teacher and self.distil_weight:
            loss = loss + self.distil_weight * distillation_loss(
                answer, self.teacher[0], share, batch.scale
            )
        self.step_losses.append(loss.detach())
        return loss

    def validation_step(self, batch: Example, batch_index: int) -> None:
        """Answer one batch of the tune split, in float32: so the model is released."""
        share = batch.batch
        if not batch.scale.buildings:
            return
        with torch.autocast(self.device.type, enabled=False):
            answer = self.model(
                share.distance_BLF, share.slope_BLF, share.geometry_BF, share.mask_BL
            )
        self._judged.append(
            (
                answer.quadrant_probability,
                answer.severity_permille,
                share.accepted_B4,
                share.severity_B,
            )
        )

    def on_validation_epoch_end(self) -> None:
        """Score the whole tune split; it is answered at the end of each epoch, after the
        last training batch."""
        parts = [torch.cat(part).cpu().numpy() for part in zip(*self._judged, strict=True)]
        gathered = [part for part in gather(parts) if part]
        probability, severity, accepted_true, severity_true = map(
            np.concatenate, zip(*gathered, strict=True)
        )
        self._judged.clear()
        finite = bool(np.isfinite(probability).all() and np.isfinite(severity).all())
        score = checkpoint_score(probability, severity, accepted_true, severity_true)
        self.end_epoch(score._asdict(), finite)
