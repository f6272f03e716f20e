"""Compare how many buildings are called damaged with how many would be if none were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import nbinom, poisson

from plumbline.core.console import log
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, INTERVAL_SHARE
from plumbline.export.package import ALARMS

FEW = 20
"""Judged buildings, below which their number is compared with nothing."""
MISSES_ONE_IN = round(1 / (1 - INTERVAL_SHARE))
"""Of so many sound buildings, like those that the interval was set on, one has a whole interval in category 1 or above.

It holds all of category 0 or nothing, so that those it misses are missed from above.
"""
FEW_SOUND = 30
"""Sound buildings of all kinds together, below which a package does not tell how many are flagged."""
BY_CHANCE = 0.01
"""With a smaller probability, if all were sound, a number is more than chance."""


class Flagged(NamedTuple):
    """Buildings with their whole interval from a severity on."""

    from_permille: float
    found: int
    expected: float
    """Of as many sound ones."""
    chance: float
    """Probability that so many of them or more would be."""

    @property
    def more_than_chance(self) -> bool:
        """Whether as many would hardly be found if all were sound."""
        return self.chance < BY_CHANCE


def flagged(table: pd.DataFrame, metrics: Mapping[str, Any] | None) -> list[Flagged]:
    """How many of the judged buildings have their whole interval above each bound, and how many sound ones would.

    The number of sound ones is negative binomial: a Poisson number whose rate is itself known from F flagged of S
    sound buildings only, as a gamma distribution of shape F + 1 and rate S + 1 (so that nothing is impossible). Of
    several kinds mean and variance add up. Each is asked for its own, however few: sparse points are flagged many times
    as often as dense ones. Of a kind that the package has not seen any number may be.

    Args:
        table: predictions. metrics: of the manifest of the package that made them; without `ALARMS` in it, or with
            fewer than `FEW_SOUND` buildings, only the first bound is compared, by what the interval was set to hold.
            None where others were judged than the package's own params let: nothing is known to compare with.

    Returns:
        For each bound; nothing where there is nothing to compare with, or fewer than `FEW` are judged.
    """
    ok = table["status"] == "ok"
    if metrics is None or ok.sum() < FEW:
        return []
    low, points = table["severity_low"][ok].to_numpy(float), table["n_points"][ok].to_numpy(int)
    if not measured(metrics):
        bound, expected = CATEGORY_BOUNDS_PERMILLE[0], len(low) / MISSES_ONE_IN
        found = int((low >= bound).sum())
        return [Flagged(bound, found, expected, float(poisson.sf(found - 1, expected)))]
    told = metrics[ALARMS]
    sound, alarms = np.asarray(told["sound"]), np.asarray(told["flagged"])
    kind = np.searchsorted(told["points_from"], points, side="right") - 1
    count = np.bincount(kind, minlength=len(sound))
    share = np.where(sound[:, None] > 0, alarms / np.maximum(sound, 1)[:, None], 1 / MISSES_ONE_IN)
    return [
        Flagged(bound, found, float(mean), chance(found, count, alarms[:, number], sound))
        for number, (bound, mean) in enumerate(zip(told["bounds_permille"], count @ share, strict=True))
        for found in [int((low >= bound).sum())]
    ]


def measured(metrics: Mapping[str, Any]) -> bool:
    """Whether a package tells how many sound buildings it flags."""
    return ALARMS in metrics and sum(metrics[ALARMS]["sound"]) >= FEW_SOUND


def chance(found: int, count: NDArray[np.intp], alarms: NDArray[np.intp], sound: NDArray[np.intp]) -> float:
    """Probability that of sound buildings so many or more are flagged.

    Args:
        found: so many. count: (K,) buildings of each kind, of all together one at least.
        alarms: (K,) flagged of other sound ones. sound: (K,) of how many.
    """
    rate = (alarms + 1) / (sound + 1)
    mean = count @ rate
    variance = mean + count**2 @ (rate / (sound + 1))
    return float(nbinom.sf(found - 1, mean**2 / (variance - mean), mean / variance))


def say_damaged(table: pd.DataFrame, metrics: Mapping[str, Any] | None, where: str = "") -> None:
    """Say how many are damaged, and whether as many would be said to be if all were sound.

    Args:
        table: predictions. metrics: see `flagged`. where: begins the line.
    """
    judged, damaged = int((table["status"] == "ok").sum()), int((table["burland_category"] >= 1).sum())
    if not damaged:
        return
    whole = whole_in_damage(table)
    said = [f"{where}{damaged} of the ok are of category 1 or above, {whole} of them with their whole interval"]
    if counts := flagged(table, metrics):
        numbers = [f"from {one.from_permille:g} permille {one.found} (about {_about(one.expected)})" for one in counts]
        known = metrics is not None and measured(metrics)
        rate = "" if known else f", if it were one in {MISSES_ONE_IN} of them as on the data of the interval"
        said.append(f"Whole intervals, and how many {judged} sound buildings would have{rate}: {', '.join(numbers)}")
        many = [one for one in counts if one.more_than_chance]
        if many and not known:
            said.append(
                "More than that; but nobody has counted how many sound buildings this model flags, so it shows no "
                "damage by itself. Look at the highest severity_low first"
            )
        elif many:
            shares = [f"{one.found - one.expected:.0f} of the {one.found} from {one.from_permille:g}" for one in many]
            said.append(f"More than chance makes of sound ones; damaged are at least about {', '.join(shares)}")
        elif counts[0].found:
            said.append("So their number does not show that any is damaged; look at the highest severity_low first")
        else:
            said.append("So nothing shows that any is damaged")
    log.info(". ".join(said))


def whole_in_damage(table: pd.DataFrame) -> int:
    """How many have their whole interval in category 1 or above."""
    return int((table["severity_low"] >= CATEGORY_BOUNDS_PERMILLE[0]).sum())


def _about(expected: float) -> str:
    return f"{expected:.0f}" if expected >= 10 else f"{expected:.1f}"
