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
    """(B,) of category 1 or above, with no quadrant as probable as is asked for."""
    damaged = answers.severity_permille >= CATEGORY_BOUNDS_PERMILLE[0]
    return np.asarray(damaged & (answers.quadrant_probability.max(axis=1, initial=0) < limits.min_quadrant_confidence))
