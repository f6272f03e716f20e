"""Which of several ways to answer is best, and how sure that is: from answers to buildings that were held out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from plumbline.model.diagnosis import Diagnosis
from plumbline.train.calibrate.conformal import RawAnswers
from plumbline.train.calibrate.temperature import best_temperature


def on_scale_of(base: Diagnosis, model: Diagnosis, raw: RawAnswers) -> RawAnswers:
    """Answers of `model` with severities standardised as those of `base`."""
    mean, sd = (base.get_buffer(f"severity_{name}") for name in ("mean", "sd"))
    own_mean, own_sd = (model.get_buffer(f"severity_{name}") for name in ("mean", "sd"))

    def moved(standard: Tensor) -> Tensor:
        return (standard * own_sd + own_mean - mean) / sd

    return raw._replace(severity_B3=moved(raw.severity_B3), standard_B=moved(raw.standard_B))


def losses(raw: RawAnswers, quadrant_weight: float, severity_weight: float) -> Tensor:
    """(B,) of each building what training makes small: smoother than shares of right answers.

    Quadrants at their best temperature, which is set anew anyway; of severities the error of the middle.
    """
    defined = raw.quadrant_B >= 0
    found_B = severity_weight * (raw.severity_B3[:, 1] - raw.standard_B).abs()
    if defined.any():
        logits = raw.logits_B4[defined] / best_temperature(raw.logits_B4, raw.quadrant_B)
        own = nn.functional.cross_entropy(logits, raw.quadrant_B[defined], reduction="none")
        found_B[defined] += quadrant_weight * own / defined.float().mean()
    return found_B


def chance_of_less(before_B: Tensor, after_B: Tensor) -> float:
    """How probable it is that errors `after_B` are less on average than `before_B`, of the same buildings.

    Of their mean difference by its standard error, which is about normal, with all means as probable beforehand.
    """
    less_B = (before_B - after_B).double()
    mean, spread = float(less_B.mean()), float(less_B.std()) if len(less_B) > 1 else 0.0
    if not spread:
        return float(mean > 0)
    return 0.5 * (1 + math.erf(mean / spread * (len(less_B) / 2) ** 0.5))


def first_as_good(found: Sequence[Tensor], errors: float) -> int:
    """The first of the ways, the simplest, that is no worse than the best by more than so many standard errors.

    The error is that of the mean difference between the two, building by building (the one-standard-error rule of
    Breiman et al. 1984, for pairs).

    Args:
        found: losses (B,) of each way, of the same buildings, the simplest way first.
        errors: 0 takes the best.
    """
    best = min(range(len(found)), key=lambda number: float(found[number].mean()))
    for number, own in enumerate(found[:best]):
        if float(own.mean()) > float(found[0].mean()):
            continue  # not clearly worse than the best, and yet worse than no change
        more_B = own - found[best]
        if float(more_B.mean()) <= errors * float(more_B.std()) / len(more_B) ** 0.5:
            return number
    return best
