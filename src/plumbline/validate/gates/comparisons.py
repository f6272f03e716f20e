"""The drops that rules ask for, on the slices that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from plumbline.params import Gate
from plumbline.params.validate import OF_BUILDINGS
from plumbline.prepare.features.shards import SequenceSet
from plumbline.validate.gates.bootstrap import Pair, resampled_drops
from plumbline.validate.gates.rules import Drops, covers
from plumbline.validate.metrics import Judged


def drops_of(
    rules: Sequence[Gate], everyone: Mapping[str, Judged], test: SequenceSet, parts: Mapping[str, NDArray[np.bool_]],
    min_slice: int,
) -> Drops:  # fmt: skip
    """Resampled drops for every rule `max_drop_vs` over buildings, on every slice that it covers.

    Args:
        everyone: what each artifact and reference said of the B buildings of `test`. parts: slice -> (B,) which.
        min_slice: a slice with fewer buildings has no drops, as it has no figures.
    """
    drops = {}
    for part, inside in parts.items():
        pairs = {
            Pair(rule.metric, rule.artifact, str(rule.max_drop_vs))
            for rule in rules
            if rule.max_drop_vs and rule.metric in OF_BUILDINGS and covers(rule, part)
        }
        if pairs and inside.sum() >= min_slice:
            said = {name: Judged(*(np.asarray(values)[inside] for values in one)) for name, one in everyone.items()}
            quadrant, severity = np.asarray(test.quadrant)[inside], np.asarray(test.severity)[inside]
            drops[part] = resampled_drops(sorted(pairs), said, quadrant, severity)
    return drops
