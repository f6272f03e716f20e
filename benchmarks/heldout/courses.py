"""Courses in time: from 0 at the first day to 1 at the last, and the annual course of temperature."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]
KINDS = ("linear", "decaying", "onset", "accelerating")
WARMEST_DAY = 205


def draw_courses(generator: Generator, count: int) -> tuple[NDArray[np.intp], Array]:
    """(count,) index into `KINDS` and (count, 2) its shape, each from 0 to 1."""
    return generator.integers(len(KINDS), size=count), generator.random((count, 2))


def course(kind: NDArray[np.intp], shape: Array, share: Array) -> Array:
    """(count, E) how much of the movement has happened after a share (E,) of the time."""
    first, second = shape[:, :1], shape[:, 1:]
    tau, begin, power = 0.1 + 0.5 * first, 0.15 + 0.55 * first, 1.5 + 1.5 * first
    decaying = np.expm1(-share / tau) / np.expm1(-1 / tau)
    onset = np.clip((share - begin) / (1 - begin), 0, 1) ** (0.5 + 1.5 * second)
    every = np.stack(np.broadcast_arrays(share, decaying, onset, share**power))
    return every[kind, np.arange(len(kind))]


def warmth(days: Array, first_day_of_year: int) -> Array:
    """(E,) 1 on the warmest day of a year, -1 on the coldest."""
    return np.cos(2 * np.pi * (days + first_day_of_year - WARMEST_DAY) / 365.25)
