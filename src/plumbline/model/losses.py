"""Define the losses of training, as plug-ins.

Shape legend: B buildings.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from plumbline.core.strain import INTERVAL_SHARE, LEVEL_EDGES_PERMILLE
from plumbline.model.network import RawAnswer
from plumbline.params import Train
from plumbline.params.plugins import QUADRANT_LOSS, SEVERITY_LOSS
from plumbline.params.train import QuadrantKind, SeverityKind

LOW, HIGH = (1 - INTERVAL_SHARE) / 2, (1 + INTERVAL_SHARE) / 2
"""Quantiles that the interval's ends aim at before calibration."""
CHARBONNIER_WIDTH = 1e-3
"""Standardised severity below which errors are squared, and above which they are absolute."""
FOCAL_GAMMA = 2.0
"""Exponent of `focal`: with a larger one, right answers count less; 0 is cross-entropy."""
ACCEPTED_WEIGHT = 1.0
"""Weight of the loss of which quadrants are right answers, as several are where damage is
spread."""
LEVEL_WEIGHT = 0.5
"""Weight of the loss of the level of strain, which the probabilities of the categories are made
of."""
MECHANISM_WEIGHT = 0.25
"""Weight of the loss of the mechanism."""


def cross_entropy(cross_entropy_B: Tensor) -> Tensor:
    """Return the cross-entropy unchanged."""
    return cross_entropy_B


def focal(cross_entropy_B: Tensor) -> Tensor:
    """Return cross-entropy times `(1 - p)^gamma`: buildings already right count little (Lin
    et al. 2017)."""
    # Kept from 0, where a root's slope is infinite.
    doubt_B = (-torch.expm1(-cross_entropy_B)).clamp(min=torch.finfo(cross_entropy_B.dtype).tiny)
    return doubt_B.pow(FOCAL_GAMMA) * cross_entropy_B


def huber(error_B: Tensor) -> Tensor:
    """Return the error squared up to one standard deviation, absolute beyond (Huber 1964)."""
    return functional.huber_loss(error_B, torch.zeros_like(error_B), reduction="none")


def charbonnier(error_B: Tensor) -> Tensor:
    """Return the absolute error, smooth at 0 (Charbonnier et al. 1994)."""
    return (error_B.square() + CHARBONNIER_WIDTH**2).sqrt() - CHARBONNIER_WIDTH


@dataclass(frozen=True)
class QuadrantLoss:
    """Mean loss over the buildings with a defined quadrant (not -1); 0 without any.

    What is aimed at is spread evenly over all quadrants that are right answers.
    """

    kind: QuadrantKind = "cross_entropy"

    def __call__(
        self,
        answer: RawAnswer,
        quadrant_B: Tensor,
        accepted_B4: Tensor,
        weight_B: Tensor | None = None,
    ) -> Tensor:
        """Return the mean loss; with weights, a building of weight w counts as w buildings."""
        target_B4 = accepted_B4.to(answer.logits_B4.dtype)
        target_B4 = target_B4 / target_B4.sum(1, keepdim=True).clamp(min=1)
        cross_entropy_B = functional.cross_entropy(answer.logits_B4, target_B4, reduction="none")
        each_B: Tensor = QUADRANT_LOSS[self.kind](cross_entropy_B)
        return counted_mean(each_B, self.counts(quadrant_B, weight_B))

    def counts(self, quadrant_B: Tensor, weight_B: Tensor | None = None) -> Tensor:
        """Return the count (B,) of each building in the mean; 0 if its quadrant is undefined."""
        counts_B = (quadrant_B >= 0).to(torch.float32 if weight_B is None else weight_B.dtype)
        if weight_B is not None:
            counts_B = counts_B * weight_B
        return counts_B


@dataclass(frozen=True)
class SeverityLoss:
    """Mean loss of the middle, plus the pinball loss of both ends of the interval (Koenker
    and Bassett 1978).

    `pinball` aims the middle at the median as well, which stays the median in permille,
    `mse` at the mean of the standardised severity; `huber` and `charbonnier` are between
    these.
    """

    kind: SeverityKind = "pinball"

    def __call__(
        self, answer: RawAnswer, standard_B: Tensor, weight_B: Tensor | None = None
    ) -> Tensor:
        """Return the mean loss of standardised severity; with weights, a building of weight
        w counts as w buildings."""
        error_B3 = standard_B[:, None] - answer.severity_B3
        low_B, middle_B, high_B = error_B3.unbind(1)
        middle_loss_B: Tensor = SEVERITY_LOSS[self.kind](middle_B)
        each_B = middle_loss_B + _pinball(low_B, LOW) + _pinball(high_B, HIGH)
        if weight_B is not None:
            each_B = each_B * (weight_B / weight_B.mean())
        return each_B.mean()


def _pinball(error_B: Tensor, quantile: float) -> Tensor:
    """Return the pinball loss: its mean is least where the share `quantile` of errors is
    negative."""
    return torch.maximum(quantile * error_B, (quantile - 1) * error_B)


def accepted_loss(answer: RawAnswer, accepted_B4: Tensor, counts_B: Tensor) -> Tensor:
    """Return the binary cross-entropy of each quadrant being a right answer, over the
    buildings that count."""
    target_B4 = accepted_B4.to(answer.accepted_B4.dtype)
    each_B4 = functional.binary_cross_entropy_with_logits(
        answer.accepted_B4, target_B4, reduction="none"
    )
    return counted_mean(each_B4.mean(1), counts_B)


def mechanism_loss(answer: RawAnswer, mechanism_B: Tensor, counts_B: Tensor) -> Tensor:
    """Return the cross-entropy of the mechanism over the buildings that count; 0 if it is
    unknown."""
    each_B = functional.cross_entropy(
        answer.mechanism_BM, mechanism_B.long(), ignore_index=-1, reduction="none"
    )
    return counted_mean(each_B, counts_B)


def level_loss(answer: RawAnswer, severity_B: Tensor, weight_B: Tensor | None = None) -> Tensor:
    """Return the cross-entropy of the level to which the severity, permille, belongs."""
    level_B = torch.bucketize(severity_B, _edges(severity_B.device), right=True)
    each_B = functional.cross_entropy(answer.levels_BK, level_B, reduction="none")
    return each_B.mean() if weight_B is None else (each_B * (weight_B / weight_B.mean())).mean()


@functools.cache
def _edges(device: torch.device) -> Tensor:
    """Return the edges of the levels, copied to the device once: a GPU waits for each copy."""
    return torch.tensor(LEVEL_EDGES_PERMILLE, device=device)


def counted_mean(each_B: Tensor, counts_B: Tensor) -> Tensor:
    """Return the mean over buildings, weighted by their counts; 0 if all counts are 0."""
    counts_B = counts_B.to(each_B.dtype)
    return (counts_B * each_B).sum() / counts_B.sum().clamp(min=torch.finfo(counts_B.dtype).tiny)


class LabelColumns(Protocol):
    """Labels of B buildings; see `data.batches.Batch`."""

    @property
    def severity_B(self) -> Tensor:
        """Permille."""

    @property
    def quadrant_B(self) -> Tensor:
        """Code, or -1."""

    @property
    def accepted_B4(self) -> Tensor:
        """Right answers."""

    @property
    def mechanism_B(self) -> Tensor:
        """Code, or -1."""


class Losses(NamedTuple):
    """The losses of a run."""

    quadrant: QuadrantLoss
    severity: SeverityLoss
    train: Train

    def over_damaged(
        self, answer: RawAnswer, labels: LabelColumns, weight_B: Tensor | None = None
    ) -> Tensor:
        """Return the weighted loss over damaged buildings: quadrant, accepted quadrants and
        mechanism."""
        counts_B = self.quadrant.counts(labels.quadrant_B, weight_B)
        means = (
            (
                self.train.quadrant_weight,
                self.quadrant(answer, labels.quadrant_B, labels.accepted_B4, weight_B),
            ),
            (ACCEPTED_WEIGHT, accepted_loss(answer, labels.accepted_B4, counts_B)),
            (MECHANISM_WEIGHT, mechanism_loss(answer, labels.mechanism_B, counts_B)),
        )
        return sum((weight * mean for weight, mean in means[1:]), start=means[0][0] * means[0][1])

    def over_all(
        self,
        answer: RawAnswer,
        labels: LabelColumns,
        standard_B: Tensor,
        weight_B: Tensor | None = None,
    ) -> Tensor:
        """Return the weighted loss over all buildings: standardised severity and its level."""
        severity = self.train.severity_weight * self.severity(answer, standard_B, weight_B)
        return severity + LEVEL_WEIGHT * level_loss(answer, labels.severity_B, weight_B)


def build_losses(train: Train) -> Losses:
    """Build the losses that the section `train` names."""
    return Losses(QuadrantLoss(train.quadrant_loss), SeverityLoss(train.severity_loss), train)
