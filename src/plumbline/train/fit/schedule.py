"""Set the learning rate from the place in the run and the scores so far, so that a resumed run needs no other state."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.optim import SGD
from torch.optim.lr_scheduler import ReduceLROnPlateau

from plumbline.params import Optimise


def rate_factor(optimise: Optimise, position: float, scores: Sequence[float]) -> float:
    """Return the factor of `learning_rate`.

    Args:
        optimise: `schedule`, `warmup_epochs` or `warmup_share`, `epochs` and `patience` of it count.
        position: epochs done, with the done part of the present one.
        scores: of the tune split after each epoch that is done and that the run may end with: others, as those before
            a curriculum is complete, may score higher for another reason.
    """
    warmup = optimise.warmup_epochs or optimise.warmup_share * optimise.epochs
    rise = min(1.0, position / warmup) if warmup else 1.0
    if optimise.schedule == "cosine":
        # Loshchilov and Hutter 2017, equation 5, without restarts.
        done = min(1.0, max(0.0, position - warmup) / (optimise.epochs - warmup))
        return rise * 0.5 * (1 + math.cos(math.pi * done))
    if optimise.schedule == "plateau":
        return rise * _plateau(scores, max(1, optimise.patience // 3))
    return rise


def _plateau(scores: Sequence[float], patience: int) -> float:
    """Return the factor: halved whenever the score has not risen for `patience` epochs."""
    optimiser = SGD([torch.zeros(1)], lr=1.0)
    # One less, since torch waits for one epoch more than its `patience`.
    # Absolute: relative to a score below 0, every equal score would count as a better one.
    # However little a score rises: so little is a better epoch for the checkpoints, too.
    plateau = ReduceLROnPlateau(
        optimiser, mode="max", factor=0.5, patience=patience - 1, threshold=0.0, threshold_mode="abs"
    )
    for score in scores:
        plateau.step(score)
    return float(optimiser.param_groups[0]["lr"])
