"""Whom an answer is given for: of the buildings whose points could be prepared, not all are judged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plumbline.export.answers import Answers
from plumbline.params import Prepare
from plumbline.prepare.resolution import points_and_tracks, strain_error
from plumbline.prepare.shards import SequenceSet
from plumbline.strain import CATEGORY_BOUNDS_PERMILLE

Mask = NDArray[np.bool_]
NEAR_PERMILLE = 0.2
"""About the bound of category 1: from so far below to so far above, 0.4 to 0.6 of the buildings are damaged."""
CHANCE = 0.25
"""The likeliest of four quadrants is never less probable."""


def judged(sequences: SequenceSet, answers: Answers, limits: Prepare) -> Mask:
    """(B,) who gets an answer.

    Args:
        sequences: B buildings. answers: for them.
        limits: `min_points`, `max_strain_error_permille` and `min_quadrant_confidence` of it count.
    """
    return answered(answers) & ~blurred(sequences, limits) & ~torn(answers, limits)


def answered(answers: Answers) -> Mask:
    """(B,) like the training buildings, and with figures: an answer that is no number is none."""
    return np.asarray((answers.novelty <= 1) & np.isfinite(np.column_stack(answers)).all(1))


def blurred(sequences: SequenceSet, limits: Prepare) -> Mask:
    """(B,) whose points could not show a strain of category 1.

    They are too noisy, or too few beyond what is fitted before anything is looked at: two tilts, and an offset of each
    track. What that leaves of as many points is zero, whatever the building does; of few more, too little to tell four
    corners apart. So each track takes one point, and `min_points` must be left.
    """
    length, tracks = points_and_tracks(sequences)
    noisy = ~(strain_error(sequences) <= limits.max_strain_error_permille)
    return np.asarray(noisy | (length - tracks < limits.min_points))


def torn(answers: Answers, limits: Prepare) -> Mask:
    """(B,) damaged, perhaps, with no quadrant as probable as is asked for.

    Where category 1 begins a building is about as likely damaged as not. So `min_quadrant_confidence` is asked for in
    full only well above it (`NEAR_PERMILLE`), nothing well below, and in between what lies between (decision 26).
    """
    first, full = CATEGORY_BOUNDS_PERMILLE[0], limits.min_quadrant_confidence
    bounds = first - NEAR_PERMILLE, first + NEAR_PERMILLE
    needed = np.interp(answers.severity_permille, bounds, (min(CHANCE, full), full), left=0)
    return np.asarray(answers.quadrant_probability.max(axis=1, initial=0) < needed)
