"""Courses in time: from 0 at the first day to 1 at the last."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import erf

Array = NDArray[np.float64]
KINDS = {"linear": 0.35, "decaying": 0.25, "onset": 0.2, "accelerating": 0.2}
"""How often each is drawn."""


def draw_courses(generator: Generator, count: int) -> Array:
    """(count, 4) index into `KINDS`, and what shapes the last three of them."""
    kind = generator.choice(len(KINDS), count, p=list(KINDS.values()))
    decay, onset = generator.uniform(0.3, 1.2, count), generator.uniform(0.1, 0.6, count)
    return np.column_stack([kind, decay, onset, generator.uniform(1.6, 3.0, count)])


def course(drawn: Array, share: Array) -> Array:
    """(P, E) how much of the movement has happened after a share (E,) of the time, by rows (P, 4) of `draw_courses`."""
    kind, decay, onset, power = np.split(drawn, 4, axis=1)
    decaying = (1 - np.exp(-share / decay)) / (1 - np.exp(-1 / decay))
    begun = np.clip((share - onset) / (1 - onset), 0, 1)
    return np.select([kind == 0, kind == 1, kind == 2], [share[None], decaying, begun], share**power)


def passing_course(when: Array, share: Array) -> Array:
    """The same of a tunnel that passes at a time and takes one (P, 2), shares of the whole."""
    middle, width = np.split(when, 2, axis=1)

    def passed(share: Array) -> Array:
        return np.asarray(0.5 * (1 + erf((share - middle) / width / np.sqrt(2))))

    before = passed(np.zeros(1))
    return (passed(share) - before) / (passed(np.ones(1)) - before)
