"""How many are damaged, beside how many would be said to be if none were."""

from __future__ import annotations

import math

import pandas as pd

from plumbline.console import log
from plumbline.strain import CATEGORY_BOUNDS_PERMILLE, INTERVAL_SHARE

FEW = 20
"""Judged buildings, below which their number is compared with nothing."""
MISSES_ONE_IN = round(1 / (1 - INTERVAL_SHARE))
"""Of so many sound buildings, like those that the interval was set on, one has a whole interval in category 1 or above.

It holds all of category 0 or nothing, so that those it misses are missed from above.
"""


def say_damaged(table: pd.DataFrame, where: str = "") -> None:
    """Say how many are damaged, and whether as many would be said to be if all were sound.

    `where` begins the line. More than two standard deviations (binomial) above the expected number is more than chance.
    """
    judged, damaged = int((table["status"] == "ok").sum()), int((table["burland_category"] >= 1).sum())
    if not damaged:
        return
    sure, expected = whole_in_damage(table), judged / MISSES_ONE_IN
    said = [f"{where}{damaged} of the ok are of category 1 or above, {sure} of them with their whole interval"]
    if judged >= FEW:
        said.append(
            f"By the model's calibration 1 sound building in {MISSES_ONE_IN} has such an interval: about "
            f"{expected:.0f} of {judged}"
        )
        if sure > expected + 2 * math.sqrt(expected * (1 - 1 / MISSES_ONE_IN)):
            said.append("There are more than chance makes of sound ones")
        elif sure:
            said.append("So their number does not show that any is damaged; look at the highest severity_low first")
        else:
            said.append("So nothing shows that any is damaged")
    log.info(". ".join(said))


def whole_in_damage(table: pd.DataFrame) -> int:
    """How many have their whole interval in category 1 or above."""
    return int((table["severity_low"] >= CATEGORY_BOUNDS_PERMILLE[0]).sum())
