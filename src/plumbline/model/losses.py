"""What training makes small."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from plumbline.model.network import RawAnswer

LOW, HIGH = 0.05, 0.95
"""Quantiles that the interval's ends aim at before calibration: 90 % between them."""


def quadrant_loss(answer: RawAnswer, quadrant_B: Tensor, weight_B: Tensor | None = None) -> Tensor:
    """Mean cross-entropy over the buildings whose quadrant is defined; 0 where there is none.

    With weights, a building of weight w counts as w buildings.
    """
    if weight_B is not None:
        counts_B = weight_B * (quadrant_B >= 0)
        each_B = nn.functional.cross_entropy(answer.logits_B4, quadrant_B, ignore_index=-1, reduction="none")
        return (counts_B * each_B).sum() / counts_B.sum().clamp(min=torch.finfo(counts_B.dtype).tiny)
    total = nn.functional.cross_entropy(answer.logits_B4, quadrant_B, ignore_index=-1, reduction="sum")
    return total / (quadrant_B >= 0).sum().clamp(min=1)


def severity_loss(answer: RawAnswer, standard_B: Tensor, weight_B: Tensor | None = None) -> Tensor:
    """Mean absolute error of the middle, plus the pinball loss of both ends (Koenker and Bassett 1978).

    The absolute error aims at the median, which stays the median in permille, whatever the scale of the loss. With
    weights, a building of weight w counts as w buildings.
    """
    error_B3 = standard_B[:, None] - answer.severity_B3
    quantile_3 = torch.tensor([LOW, 0.5, HIGH], dtype=error_B3.dtype, device=error_B3.device)
    pinball_B3 = torch.maximum(quantile_3 * error_B3, (quantile_3 - 1) * error_B3)
    if weight_B is not None:
        pinball_B3 = pinball_B3 * (weight_B / weight_B.mean())[:, None]
    # The middle's pinball loss is half the absolute error; the ends count as much as their share of the error.
    return 2 * pinball_B3[:, 1].mean() + pinball_B3[:, 0].mean() + pinball_B3[:, 2].mean()
