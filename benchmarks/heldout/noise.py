"""Invented noise: correlated in time in two ways, partly common to a building, with outliers and jumps."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.heldout.sensors import Sensor

Array = NDArray[np.float64]
OUTLIERS, JUMPS = 0.02, 0.03
"""Share of values, share of scatterers."""
MEMORY_DAYS = (30.0, 250.0)
"""After which an autoregression keeps 1/e of its value."""
STEEPNESS = (0.6, 1.7)
"""Of the power law: from nearly white to nearly a random walk."""


def invented(generator: Generator, sensor: Sensor, owner: NDArray[np.intp], days: NDArray[np.int64]) -> Array:
    """(P, E) mm for scatterers of buildings `owner` (P,), ascending."""
    points, (_, place) = len(owner), np.unique(owner, return_inverse=True)
    size = generator.uniform(*sensor.noise_mm, points)
    share = generator.uniform(*sensor.correlated)
    own = np.sqrt(1 - share) * generator.normal(size=(points, len(days)))
    own += np.sqrt(share) * correlated(generator, points, days)
    common = correlated(generator, int(place.max(initial=-1)) + 1, days)
    common *= generator.uniform(*sensor.common_mm, len(common))[:, None]
    return np.asarray(size[:, None] * own + common[place])


def correlated(generator: Generator, count: int, days: NDArray[np.int64]) -> Array:
    """(count, E) of unit variance: half by an autoregression of first order, half by a power law in frequency."""
    grid = np.arange(days[0], days[-1] + 1, int(np.diff(days).min()))
    white = generator.normal(size=(count, len(grid)))
    memory = np.exp(-np.diff(grid)[0] / generator.uniform(*MEMORY_DAYS, count))
    result = white.copy()
    for epoch in range(1, len(grid)):
        result[:, epoch] = memory * result[:, epoch - 1] + np.sqrt(1 - memory**2) * white[:, epoch]
    by_memory = generator.random(count) < 0.5
    steep = generator.uniform(*STEEPNESS, int((~by_memory).sum()))
    frequency = np.fft.rfftfreq(2 * len(grid))
    frequency[0] = np.inf
    longer = np.concatenate([white[~by_memory], generator.normal(size=(len(steep), len(grid)))], axis=1)
    # Cut from a series twice as long, so that its ends do not meet.
    shaped = np.fft.irfft(np.fft.rfft(longer) * frequency ** (-steep[:, None] / 2), 2 * len(grid))
    shaped /= np.maximum(shaped.std(axis=1, keepdims=True), 1e-12)
    result[~by_memory] = shaped[:, : len(grid)]
    return np.asarray(result[:, np.searchsorted(grid, days)])


def spoil(generator: Generator, sensor: Sensor, series: Array) -> Array:
    """The series (P, E), mm, with outliers and with jumps of half a wavelength."""
    points, epochs = series.shape
    half = sensor.wavelength_mm / 2
    bad = generator.random(series.shape) < OUTLIERS
    series = series + bad * generator.uniform(-half, half, series.shape)
    jumping = generator.random(points) < JUMPS
    since = np.arange(epochs) >= generator.integers(1, epochs, (points, 1))
    return np.asarray(series + (half * jumping * generator.choice([-1, 1], points))[:, None] * since)
