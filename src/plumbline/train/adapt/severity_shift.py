"""Shift severities to the level of a city's labels, by a factor and an offset of the logarithm.

Another rule of surveying, another kind of building or a smoothed product changes all severities alike. Two numbers
need few labels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from plumbline.model.diagnosis import SEVERITY_FLOOR, Diagnosis

FACTOR_SD, OFFSET_SD, LEAST_FACTOR = 0.15, 0.5, 0.1
"""How far factor and offset lie from 1 and 0, before any label is seen; of standardised severities;
and the smallest factor: more damage is never called less."""
HUBER = 1.345
"""In robust standard deviations: from where a building counts less (Huber 1964)."""
ROUNDS = 20


class Level(NamedTuple):
    """Line `factor * said + offset` on standardised severities."""

    factor: float = 1.0
    offset: float = 0.0

    def times(self, share: float) -> Level:
        """Return the level at this share of the way from no change."""
        return Level(1 + share * (self.factor - 1), share * self.offset)


def fit_level(said_B: Tensor, true_B: Tensor) -> Level:
    """Return the most probable level for standardised severities, by a robust line with normal priors.

    Args:
        said_B: what the model says. true_B: of the labels, on the same scale.
    """
    said_B, true_B = said_B.double(), true_B.double()
    design_B2 = torch.stack([said_B, torch.ones_like(said_B)], 1)
    precision_2 = torch.tensor([FACTOR_SD, OFFSET_SD], dtype=torch.double) ** -2
    prior_2 = torch.tensor([1.0, 0.0], dtype=torch.double)
    found_2 = prior_2
    for _ in range(ROUNDS):
        left_B = (true_B - design_B2 @ found_2).abs()
        spread = torch.clamp(1.4826 * left_B.median(), min=1e-3)
        weight_B = 1 / torch.clamp(left_B / (HUBER * spread), min=1.0) / spread**2
        normal_22 = design_B2.T @ (weight_B[:, None] * design_B2) + torch.diag(precision_2)
        found_2 = torch.linalg.solve(normal_22, design_B2.T @ (weight_B * true_B) + precision_2 * prior_2)
    return Level(max(float(found_2[0]), LEAST_FACTOR), float(found_2[1]))


def set_level(model: Diagnosis, level: Level) -> None:
    """Shift the model's severities to that level, by changing the units of its answers and their limit."""
    mean, sd, limit = (model.get_buffer(f"severity_{name}") for name in ("mean", "sd", "limit"))
    standard = model.standard_severity(limit)
    mean.add_(sd * level.offset)
    sd.mul_(level.factor)
    limit.copy_((standard * sd + mean).exp() - SEVERITY_FLOOR)
