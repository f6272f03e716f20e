"""Judge as an engineer would, by least squares: robust plane, best simple damage shape, strain of that shape."""

from __future__ import annotations

import numpy as np

from plumbline.prepare.features.definition import GEOMETRY, names
from plumbline.prepare.features.shards import SequenceSet
from plumbline.validate.metrics import Judged

_QUADRANTS = ("ne", "nw", "sw", "se")


def least_squares(sequences: SequenceSet) -> Judged:
    """Judge buildings without any training.

    The fits are those of `prepare.response.shape_fits`: they are made for every building, because the network is told
    of them, too. The quadrant that the likeliest shape strains most is the answer, its share of the likelihood the
    confidence. An engineer gives no interval.
    """
    column = names(GEOMETRY).index
    geometry = np.asarray(sequences.geometry, float)
    gain = geometry[:, [column(f"best_gain_{q}") for q in _QUADRANTS]]
    severity = geometry[:, [column(f"best_severity_{q}") for q in _QUADRANTS]]
    likelihood = np.exp(gain - gain.max(1, keepdims=True))
    best = gain.argmax(1)
    unknown = np.full(len(best), np.nan)
    said = Judged(likelihood / likelihood.sum(1, keepdims=True), severity[np.arange(len(best)), best], unknown, unknown)
    return said._replace(accepted=np.asarray(sequences.accepted))
