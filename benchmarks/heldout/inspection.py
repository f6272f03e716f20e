"""Count what a user of the list of buildings finds: flagged, right, missed, and the first of the list."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from benchmarks.heldout.scores import LOWEST_PERMILLE

FLAGGED = 0.5
"""Least `p_damaged` of a building that is flagged."""


class Inspection(NamedTuple):
    """Numbers of buildings."""

    buildings: int
    damaged: int
    left_out: int
    left_out_damaged: int
    flagged: int
    flagged_damaged: int
    missed: int
    """Damaged, judged and not flagged."""
    in_first_20: int
    """Damaged among the first 20 of the list, sorted by `p_damaged`."""
    in_first_50: int
    in_first_100: int


def inspection(beside: pd.DataFrame) -> Inspection:
    """Count the buildings of one table of `mechanisms.read_beside`; predictions without `p_damaged` flag none."""
    damaged, judged = beside["true"] >= LOWEST_PERMILLE, beside["status"] == "ok"
    sorted_by = beside["p_damaged"] if "p_damaged" in beside else pd.Series(float("nan"), beside.index)
    p_damaged = sorted_by.where(judged)
    flagged = p_damaged >= FLAGGED
    listed = damaged[p_damaged.dropna().sort_values(ascending=False, kind="stable").index]
    return Inspection(
        len(beside),
        int(damaged.sum()),
        int((~judged).sum()),
        int((damaged & ~judged).sum()),
        int(flagged.sum()),
        int((damaged & flagged).sum()),
        int((damaged & judged & ~flagged).sum()),
        *(int(listed[:first].sum()) for first in (20, 50, 100)),
    )
