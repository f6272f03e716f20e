"""Series in time: the courses of movements, and noise."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.seventh.settings import WAVELENGTH_MM, Array, Kind

MEMORY = (0.3, 0.7)
"""Correlation of noise from one epoch to the next."""
COMMON_MM = (2.0, 5.0)
"""Standard deviation of the noise that the scatterers of a house share."""
JUMPS = 0.02
"""Share of scatterers whose phase is unwrapped wrongly from some epoch on."""
GAPS = (0.05, 0.2)
"""Share of epochs without a value, one a scatterer."""


def draw_course(generator: Generator, share: Array) -> Array:
    """(E,) how much of a movement has happened after a share (E,) of the time: steady, slowing, late or speeding up."""
    course = generator.integers(4)
    if course == 0:
        return share
    if course == 1:
        lasting = generator.uniform(0.15, 0.6)
        return np.asarray((1 - np.exp(-share / lasting)) / (1 - np.exp(-1 / lasting)))
    if course == 2:
        begin = generator.uniform(0.15, 0.7)
        return np.clip((share - begin) / (1 - begin), 0, 1)
    return np.asarray(share ** generator.uniform(1.5, 3.0))


def draw_noise(
    generator: Generator, kind: Kind, owner: NDArray[np.int64], houses: int, epochs: int
) -> tuple[Array, Array]:
    """(P, E) mm for scatterers of houses `owner` (P,), and the standard deviation (P,), mm, of what is their own."""
    assert kind.invented is not None
    size = generator.uniform(*kind.invented.noise_mm, (len(owner), 1))
    own = size * _draw_correlated(generator, len(owner), epochs)
    common = generator.uniform(*COMMON_MM, (houses, 1)) * _draw_correlated(generator, houses, epochs)
    return own + common[owner], np.ravel(size)


def spoil(generator: Generator, kind: Kind, series: Array) -> None:
    """Put jumps of half a wavelength, and gaps, into series (P, E), mm."""
    points, epochs = series.shape
    jumping = np.flatnonzero(generator.random(points) < JUMPS)
    jump = generator.choice([-1, 1], len(jumping))[:, None] * WAVELENGTH_MM[kind.band] / 2
    series[jumping] += jump * (np.arange(epochs) >= generator.integers(1, epochs, len(jumping))[:, None])
    series[generator.random(series.shape) < generator.uniform(*GAPS, (points, 1))] = np.nan


def _draw_correlated(generator: Generator, count: int, epochs: int) -> Array:
    """(count, epochs) of unit variance: autoregressions of first order."""
    memory = generator.uniform(*MEMORY, count)
    values, fresh = generator.standard_normal((epochs, count)), np.sqrt(1 - memory**2)
    for epoch in range(1, epochs):
        values[epoch] = memory * values[epoch - 1] + fresh * values[epoch]
    return values.T
