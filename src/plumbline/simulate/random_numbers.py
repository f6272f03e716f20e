"""Seed the random generators of a city and of its parts, and draw what several parts of the
simulation share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plumbline.params import City

Entropy = tuple[int, ...]


def city_entropy(name: str, city: City) -> Entropy:
    """Return the seed of a city: its own number and its name."""
    return (city.seed, *name.encode())


def generators(entropy: tuple[int, ...], number: int) -> list[np.random.Generator]:
    """Return the generators of a part: for its plan, layout, motion, points, and one for
    each track."""
    seeds = np.random.SeedSequence(entropy, spawn_key=(1, number)).spawn(6)
    return [np.random.default_rng(seed) for seed in seeds]


def general_generator(entropy: tuple[int, ...]) -> np.random.Generator:
    """Return the generator for everything that the parts of a city share."""
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(0,)))


def log_uniform(
    rng: np.random.Generator, low: float, high: float, count: int
) -> NDArray[np.float64]:
    """Draw (count,) log-uniform numbers from `low` to `high`."""
    return np.asarray(np.exp(rng.uniform(np.log(low), np.log(high), count)), float)
