"""How often sound buildings are said to be damaged: what `predict` compares with where few buildings are."""

from __future__ import annotations

from typing import Any

import numpy as np

from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.export.answers import Answers
from plumbline.model.interval import KIND_BOUNDS
from plumbline.params import Prepare
from plumbline.prepare.abstention import is_judged
from plumbline.prepare.features.shards import SequenceSet

FILE = "alarms.json"
ALARM_BOUNDS_PERMILLE = CATEGORY_BOUNDS_PERMILLE[:3]
"""An interval that begins at the last bound, of category 4, is said of hardly anybody."""


def false_alarms(sequences: SequenceSet, answers: Answers, limits: Prepare) -> dict[str, Any]:
    """Of the sound buildings that `predict` would judge, how many have their whole interval above each bound.

    Sound: of category 0. By number of scatterers, which says most of a sensor, as the interval's scales are.

    Args:
        sequences: B labelled buildings that no training has seen. answers: for them.
        limits: see `is_judged`.

    Returns:
        `bounds_permille` (D,); `points_from` (K,), the least number of scatterers of each kind; `sound` (K,)
        buildings; `flagged` (K, D) of them.
    """
    sound = is_judged(sequences, answers, limits) & (np.asarray(sequences.severity) < CATEGORY_BOUNDS_PERMILLE[0])
    kind = np.searchsorted(KIND_BOUNDS, np.asarray(sequences.length), side="right")
    rows = [np.flatnonzero(sound & (kind == number)) for number in range(len(KIND_BOUNDS) + 1)]
    return {
        "bounds_permille": list(ALARM_BOUNDS_PERMILLE),
        "points_from": [0, *KIND_BOUNDS],
        "sound": [len(of_kind) for of_kind in rows],
        "flagged": [
            [int((answers.severity_low[of_kind] >= bound).sum()) for bound in ALARM_BOUNDS_PERMILLE] for of_kind in rows
        ],
    }
