"""What training makes small, as plug-ins.

Shape legend: B buildings.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from plumbline.core.strain import INTERVAL_SHARE
from plumbline.model.heads import RawAnswer
from plumbline.params import Train
from plumbline.params.plugins import QUADRANT_LOSS, SEVERITY_LOSS
from plumbline.params.train import QuadrantKind, SeverityKind

LOW, HIGH = (1 - INTERVAL_SHARE) / 2, (1 + INTERVAL_SHARE) / 2
"""Quantiles that the interval's ends aim at before calibration."""
CHARBONNIER_WIDTH = 1e-3
"""Errors below are squared, those above absolute; standardised severity."""


def cross_entropy(cross_entropy_B: Tensor, gamma: float) -> Tensor:
    """As it is."""
    return cross_entropy_B


def focal(cross_entropy_B: Tensor, gamma: float) -> Tensor:
    """Cross-entropy times `(1 - p)^gamma`: buildings that are right already count little (Lin et al. 2017)."""
    # Kept from 0, where a root's slope is infinite.
    doubt_B = (-torch.expm1(-cross_entropy_B)).clamp(min=torch.finfo(cross_entropy_B.dtype).tiny)
    return doubt_B.pow(gamma) * cross_entropy_B


def huber(error_B: Tensor) -> Tensor:
    """Squared up to one standard deviation, absolute beyond (Huber 1964)."""
    return functional.huber_loss(error_B, torch.zeros_like(error_B), reduction="none")


def charbonnier(error_B: Tensor) -> Tensor:
    """Absolute, and smooth at 0 (Charbonnier et al. 1994)."""
    return (error_B.square() + CHARBONNIER_WIDTH**2).sqrt() - CHARBONNIER_WIDTH


@dataclass(frozen=True)
class QuadrantLoss:
    """Mean loss over the buildings whose quadrant is defined (not -1); 0 where there is none."""

    kind: QuadrantKind = "cross_entropy"
    gamma: float = 2.0
    """Of `focal`; 0 is cross-entropy."""
    class_weights: tuple[float, float, float, float] | None = None
    """How many buildings one of each quadrant counts as, in the order of `compass.QUADRANTS`."""

    def __call__(self, answer: RawAnswer, quadrant_B: Tensor, weight_B: Tensor | None = None) -> Tensor:
        """With weights, a building of weight w counts as w buildings."""
        cross_entropy_B = functional.cross_entropy(answer.logits_B4, quadrant_B, ignore_index=-1, reduction="none")
        each_B: Tensor = QUADRANT_LOSS[self.kind](cross_entropy_B, self.gamma)
        counts_B = self.counts(quadrant_B, weight_B).to(each_B.dtype)
        return (counts_B * each_B).sum() / counts_B.sum().clamp(min=torch.finfo(counts_B.dtype).tiny)

    def counts(self, quadrant_B: Tensor, weight_B: Tensor | None = None) -> Tensor:
        """(B,) how many buildings each counts as; 0 where the quadrant is not defined."""
        counts_B = (quadrant_B >= 0).to(torch.float32 if weight_B is None else weight_B.dtype)
        if weight_B is not None:
            counts_B = counts_B * weight_B
        if self.class_weights is not None:
            weights_4 = _weights(self.class_weights, counts_B.device, counts_B.dtype)
            counts_B = counts_B * weights_4[quadrant_B.clamp(min=0)]
        return counts_B


@functools.cache
def _weights(of_quadrants: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """(4,) sent once: a GPU waits for what is sent."""
    return torch.tensor(of_quadrants, device=device, dtype=dtype)


@dataclass(frozen=True)
class SeverityLoss:
    """Mean loss of the middle, plus the pinball loss of both ends of the interval (Koenker and Bassett 1978).

    `pinball` aims the middle at the median as well, which stays the median in permille, `mse` at the mean of the
    standardised severity; `huber` and `charbonnier` lie between.
    """

    kind: SeverityKind = "pinball"

    def __call__(self, answer: RawAnswer, standard_B: Tensor, weight_B: Tensor | None = None) -> Tensor:
        """Of standardised severity. With weights, a building of weight w counts as w buildings."""
        error_B3 = standard_B[:, None] - answer.severity_B3
        low_B, middle_B, high_B = error_B3.unbind(1)
        own_B: Tensor = SEVERITY_LOSS[self.kind](middle_B)
        each_B = own_B + _pinball(low_B, LOW) + _pinball(high_B, HIGH)
        if weight_B is not None:
            each_B = each_B * (weight_B / weight_B.mean())
        return each_B.mean()


def _pinball(error_B: Tensor, quantile: float) -> Tensor:
    """Least in the mean where the share `quantile` of errors is negative."""
    return torch.maximum(quantile * error_B, (quantile - 1) * error_B)


class Losses(NamedTuple):
    """Both losses of a run."""

    quadrant: QuadrantLoss
    severity: SeverityLoss


def build_losses(train: Train) -> Losses:
    """The losses that the section `train` names."""
    return Losses(
        QuadrantLoss(train.quadrant_loss, train.focal_gamma, train.class_weights), SeverityLoss(train.severity_loss)
    )
