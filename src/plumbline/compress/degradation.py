"""Measure how much worse a small network answers than the large one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from plumbline.model.diagnosis import Diagnosis
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.batches import loader

BATCH = 512


class Rightness(NamedTuple):
    """Correctness of a network's answers to B buildings."""

    right: NDArray[np.float64]
    """(D,) 1 where the quadrant is right, of the buildings that have one."""
    error: NDArray[np.float64]
    """(B,) absolute error of the severity, permille."""

    @property
    def quadrant_accuracy(self) -> float:
        """Return the share of right quadrants; 0 where no building has one."""
        return float(self.right.mean()) if len(self.right) else 0.0

    @property
    def severity_mae(self) -> float:
        """Return the mean absolute error of severity, permille."""
        return float(self.error.mean())


class Loss(NamedTuple):
    """Loss in accuracy of one network against another on the same buildings, with paired standard errors."""

    drop: float
    """Share of right quadrants."""
    drop_se: float
    rise: float
    """Of the mean error of severities, relative."""
    rise_se: float


def rightness_of(model: Diagnosis, sequences: SequenceSet) -> Rightness:
    """Let `model`, in evaluation mode, answer all of `sequences`, in an order that depends on their lengths alone."""
    right, error = [], []
    with torch.inference_mode():
        for batch in loader(sequences, BATCH):
            answer = model(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
            defined = batch.quadrant_B >= 0
            said_B1 = answer.quadrant_probability.argmax(1, keepdim=True)
            right.append(batch.accepted_B4.gather(1, said_B1)[defined, 0])
            error.append((answer.severity_permille - batch.severity_B).abs())
    return Rightness(torch.cat(right).double().numpy(), torch.cat(error).double().numpy())


def loss_against(small: Rightness, large: Rightness) -> Loss:
    """Return how much worse `small` is than `large`, on the same buildings."""
    drop, rise = large.right - small.right, (small.error - large.error) / max(large.severity_mae, 1e-12)
    return Loss(_mean(drop), _standard_error(drop), _mean(rise), _standard_error(rise))


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else 0.0


def _standard_error(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
