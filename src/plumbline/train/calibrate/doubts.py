"""When a calibration is not worth its name: said where it is made, since the model itself does not show it."""

from __future__ import annotations

import math

from plumbline.core.console import log
from plumbline.core.strain import INTERVAL_SHARE
from plumbline.train.data.splits import LEAST_BUILDINGS

FEW_BUILDINGS = 40
"""With fewer, what the interval holds of others varies by 5 points and more."""
COOLEST, HOTTEST = 0.1, 10.0
"""Temperatures that are looked at."""
MOST_BEYOND = 0.05
"""Share of the buildings to calibrate on that may be damaged worse than any answer: half of what an interval misses."""
MORE = "Give more labelled buildings, or a larger prepare.split.calibrate."


def say_if_few(count: int) -> None:
    """Warn where the interval is no 90 % one, or one of a share that hardly anyone knows."""
    if count < LEAST_BUILDINGS:
        log.warning(
            "%d buildings to calibrate on: of fewer than %d the interval is their largest error, which holds %.0f %% "
            "of others and not %.0f. %s", count, LEAST_BUILDINGS, 100 * count / (count + 1), 100 * INTERVAL_SHARE, MORE,
        )  # fmt: skip
    elif count < FEW_BUILDINGS:
        # Of the beta distribution that split conformal prediction holds its share with (Vovk 2012), as good as.
        spread = math.sqrt(INTERVAL_SHARE * (1 - INTERVAL_SHARE) / (count + 2))
        log.warning(
            "%d buildings to calibrate on: what the interval holds of others is %.0f %% give or take %.0f. %s",
            count, 100 * INTERVAL_SHARE, 100 * spread, MORE,
        )  # fmt: skip


def say_if_beyond(beyond: int, count: int, limit_permille: float) -> None:
    """Warn where so many of `count` buildings are beyond the largest answer that the interval cannot hold its share."""
    if beyond > MOST_BEYOND * count:
        log.warning(
            "%d of %d buildings to calibrate on have more than %.2f permille, the most of any building trained on. No "
            "answer goes beyond that, so that intervals hold less than %.0f %% where damage is severe",
            beyond, count, limit_permille, 100 * INTERVAL_SHARE,
        )  # fmt: skip


def say_if_bounded(temperature: float, defined: int) -> None:
    """Warn where the quadrants' probabilities are not calibrated, `defined` buildings having a quadrant."""
    if not defined:
        log.warning(
            "temperature: none of the buildings to calibrate on has a quadrant (category 1 and more), so that it stays "
            "1: the quadrants' probabilities are the network's own, and the interval is that of undamaged buildings"
        )
    elif not COOLEST * 1.001 < temperature < HOTTEST / 1.001:
        log.warning(
            "temperature: the best of %g to %g is at the end, %.2f, for %d buildings with a quadrant: their answers "
            "are %s, and the quadrants' probabilities not calibrated",
            COOLEST, HOTTEST, temperature, defined, "all right" if temperature < 1 else "no better than chance",
        )  # fmt: skip
