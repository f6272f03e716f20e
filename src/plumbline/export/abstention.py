"""Decide which buildings get an answer: among those whose points could be prepared, not all are judged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.export.answers import Answers
from plumbline.params import Prepare
from plumbline.prepare.features.shards import SequenceSet
from plumbline.prepare.features.strain_resolution import points_and_tracks, strain_error

Mask = NDArray[np.bool_]
ELSEWHERE = 0.33
"""The chance that a building is damaged, and not where is said, up to which a quadrant may be told."""
FULL_PERMILLE = 1.1
"""From here on `min_quadrant_confidence` is asked for in full."""
LEAST_PERMILLE = 1e-6
"""Least severity that is divided by."""


def is_judged(sequences: SequenceSet, answers: Answers, limits: Prepare) -> Mask:
    """(B,) who gets an answer.

    Args:
        sequences: B buildings. answers: for them.
        limits: `min_points`, `max_strain_error_permille` and `min_quadrant_confidence` of it count.
    """
    return (
        is_in_distribution(answers)
        & ~has_too_little_data(sequences, limits)
        & ~has_no_probable_quadrant(answers, limits)
    )


def is_in_distribution(answers: Answers) -> Mask:
    """(B,) like the training buildings, and with figures: an answer that is no number is none."""
    return np.asarray((answers.novelty <= 1) & np.isfinite(np.column_stack(answers)).all(1))


def has_too_little_data(sequences: SequenceSet, limits: Prepare) -> Mask:
    """(B,) whose points could not show a strain of category 1.

    They are too noisy, or too few beyond what is fitted before anything is looked at: two tilts, and an offset of each
    track. What that leaves of as many points is zero, whatever the building does; of few more, too little to tell four
    corners apart. So each track takes one point, and `min_points` must be left.
    """
    length, tracks = points_and_tracks(sequences)
    noisy = ~(strain_error(sequences) <= limits.max_strain_error_permille)
    return np.asarray(noisy | (length - tracks < limits.min_points))


def has_no_probable_quadrant(answers: Answers, limits: Prepare) -> Mask:
    """(B,) damaged, perhaps, with no quadrant as probable as is asked for.

    Of the buildings said to have a severity s, s / (s + 0.5 permille) are damaged: one in two where category 1 begins.
    None is told where that, times the chance that its quadrant is another one, is above `ELSEWHERE`; from
    `FULL_PERMILLE` on, where its quadrant is less probable than `min_quadrant_confidence`. What is asked below goes
    with that limit in proportion: with 0.55 it is a chance of 0.309 just below `FULL_PERMILLE`, 0.320 at category 1
    (decisions 29, 31 and 33).
    """
    severity = np.maximum(answers.severity_permille.astype(float), LEAST_PERMILLE)
    asked, full = (1 - ELSEWHERE * (1 + CATEGORY_BOUNDS_PERMILLE[0] / said) for said in (severity, FULL_PERMILLE))
    needed = limits.min_quadrant_confidence * np.clip(asked / full, 0, 1)
    return np.asarray(answers.quadrant_probability.max(axis=1, initial=0) < needed)
