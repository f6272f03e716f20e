"""How many are damaged, beside how many would be said to be if none were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import poisson

from plumbline.console import log
from plumbline.export.package import ALARMS
from plumbline.strain import CATEGORY_BOUNDS_PERMILLE, INTERVAL_SHARE

FEW = 20
"""Judged buildings, below which their number is compared with nothing."""
MISSES_ONE_IN = round(1 / (1 - INTERVAL_SHARE))
"""Of so many sound buildings, like those that the interval was set on, one has a whole interval in category 1 or above.

It holds all of category 0 or nothing, so that those it misses are missed from above.
"""
BY_CHANCE = 0.01
"""With a smaller probability, if all were sound, a number is more than chance."""


class Flagged(NamedTuple):
    """Buildings with their whole interval from a severity on."""

    from_permille: float
    found: int
    expected: float
    """Of as many sound ones."""

    @property
    def more_than_chance(self) -> bool:
        """Whether as many would hardly be found if all were sound."""
        return bool(poisson.sf(self.found - 1, self.expected) < BY_CHANCE)


def flagged(table: pd.DataFrame, metrics: Mapping[str, Any]) -> list[Flagged]:
    """How many of the judged buildings have their whole interval above each bound, and how many sound ones would.

    Args:
        table: predictions. metrics: of the manifest of the package that made them; without `ALARMS` in it only the
            first bound is compared, by what the interval was set to hold.
    """
    ok = table["status"] == "ok"
    low, points = table["severity_low"][ok].to_numpy(float), table["n_points"][ok].to_numpy(int)
    told = metrics.get(ALARMS)
    if told is None:
        return [_flagged(low, CATEGORY_BOUNDS_PERMILLE[0], len(low) / MISSES_ONE_IN)]
    # The building itself is one more of its kind, so that nothing is said to be impossible.
    rate = (np.array(told["flagged"]) + 1) / (np.array(told["sound"])[:, None] + 1)
    expected = rate[np.searchsorted(told["points_from"], points, side="right") - 1].sum(0)
    return [_flagged(low, bound, float(one)) for bound, one in zip(told["bounds_permille"], expected, strict=True)]


def say_damaged(table: pd.DataFrame, metrics: Mapping[str, Any], where: str = "") -> None:
    """Say how many are damaged, and whether as many would be said to be if all were sound.

    Args:
        table: predictions. metrics: see `flagged`. where: begins the line.
    """
    judged, damaged = int((table["status"] == "ok").sum()), int((table["burland_category"] >= 1).sum())
    if not damaged:
        return
    counts = flagged(table, metrics)
    said = [
        f"{where}{damaged} of the ok are of category 1 or above, {counts[0].found} of them with their whole interval"
    ]
    if judged >= FEW:
        numbers = [f"from {one.from_permille:g} permille {one.found} (about {_about(one.expected)})" for one in counts]
        said.append(f"Whole intervals, and how many {judged} sound buildings would have: {', '.join(numbers)}")
        many = [one for one in counts if one.more_than_chance]
        if many:
            shares = [
                f"about {one.found - one.expected:.0f} of the {one.found} from {one.from_permille:g}" for one in many
            ]
            said.append(f"More than chance makes of sound ones; damaged are {', '.join(shares)}")
        elif counts[0].found:
            said.append("So their number does not show that any is damaged; look at the highest severity_low first")
        else:
            said.append("So nothing shows that any is damaged")
    log.info(". ".join(said))


def whole_in_damage(table: pd.DataFrame) -> int:
    """How many have their whole interval in category 1 or above."""
    return int((table["severity_low"] >= CATEGORY_BOUNDS_PERMILLE[0]).sum())


def _flagged(low: Any, bound: float, expected: float) -> Flagged:
    return Flagged(bound, int((low >= bound).sum()), expected)


def _about(expected: float) -> str:
    return f"{expected:.0f}" if expected >= 10 else f"{expected:.1f}"
