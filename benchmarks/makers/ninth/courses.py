"""Draw courses in time: from 0 on the first day to 1 on the last."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from benchmarks.makers.ninth.settings import Array

KINDS = ("linear", "exponential", "onset", "accelerating")
TIME, START, LASTS, POWER = (0.2, 1.0), (0.1, 0.6), (0.3, 1.0), (1.5, 3.0)
"""Of exponential: its time; of onset: its day, and how much of the rest it takes; of accelerating."""


class Course(NamedTuple):
    """How much of a movement has happened, by the share of the time that is over."""

    kind: str
    first: float
    second: float

    def at(self, share: Array) -> Array:
        """Return (E,) of shares (E,)."""
        if self.kind == "exponential":
            return np.asarray(np.expm1(-share / self.first) / np.expm1(-1 / self.first))
        if self.kind == "onset":
            way = np.clip((share - self.first) / (self.second * (1 - self.first)), 0, 1)
            return np.asarray(way * (2 - way))
        return np.asarray(share**self.first)


def draw_course(generator: Generator) -> Course:
    """Draw one of four kinds."""
    kind = KINDS[int(generator.integers(len(KINDS)))]
    first = {"linear": (1.0, 1.0), "exponential": TIME, "onset": START, "accelerating": POWER}[kind]
    return Course(kind, generator.uniform(*first), generator.uniform(*LASTS))
