"""Invented noise: correlated in time, partly common to a building, with outliers, jumps and gaps."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.eighth.sensors import Sensor

Array = NDArray[np.float64]
SIZES = (1.3, 1.5)
"""Beta distribution of the noise of scatterers over the sensor's range."""
CORRELATED = (0.25, 0.55)
"""Share of the noise's variance that is correlated in time."""
MEMORY_DAYS, COMMON_MEMORY_DAYS = (20, 90), (15, 60)
"""After which an autoregression keeps 1/e of its value."""
OUTLIERS, OUTLYING = 0.02, (3, 7)
"""Share of values, and how many times the noise they are off."""
JUMPS = 0.04
"""Share of series that jump by half a wavelength."""
EDGE_EPOCHS = 5
"""No jump comes sooner after the first epoch, or later before the last."""
GAPS, SINGLE = (0.05, 0.2), 0.6
"""Share of values that are missing, and of these, of single ones; the others come in one piece."""


def invented(
    generator: Generator, sensor: Sensor, owner: NDArray[np.intp], buildings: int, days: NDArray[np.int64]
) -> Array:
    """(P, E) mm for scatterers of buildings `owner` (P,) at `days` (E,)."""
    points, epochs = len(owner), len(days)
    # Few epochs are missed: one step for all.
    step = np.r_[sensor.revisit_days, np.diff(days)].mean()
    low, high = sensor.noise_mm
    size = (low + generator.beta(*SIZES, points) * (high - low))[:, None]
    share = generator.uniform(*CORRELATED, points)[:, None]
    white = generator.standard_normal((points, epochs))
    slow = _remembering(generator, points, epochs, step, MEMORY_DAYS)
    noise = size * (np.sqrt(1 - share) * white + np.sqrt(share) * slow)
    walk = np.cumsum(generator.standard_normal((points, epochs)), axis=1)
    noise += sensor.walk_mm * walk * np.sqrt(step / 365.25)
    common = generator.uniform(*sensor.common_mm, buildings)[:, None]
    noise += (common * _remembering(generator, buildings, epochs, step, COMMON_MEMORY_DAYS))[owner]
    outlying = generator.random((points, epochs)) < OUTLIERS
    side = generator.choice([-1.0, 1.0], (points, epochs))
    noise += outlying * side * generator.uniform(*OUTLYING, (points, epochs)) * size
    for point in np.flatnonzero(generator.random(points) < JUMPS):
        since = generator.integers(EDGE_EPOCHS, epochs - EDGE_EPOCHS)
        noise[point, since:] += generator.choice([-0.5, 0.5]) * sensor.wavelength_mm
    return np.asarray(noise)


def draw_gaps(generator: Generator, points: int, epochs: int) -> NDArray[np.bool_]:
    """(P, E) where a value is missing: single ones, and one longer time."""
    share = generator.uniform(*GAPS, points)[:, None]
    gaps = generator.random((points, epochs)) < SINGLE * share
    start = generator.integers(0, epochs, points)[:, None]
    length = ((1 - SINGLE) * share * epochs).astype(int)
    epoch = np.arange(epochs)
    return np.asarray(gaps | ((epoch >= start) & (epoch < start + length)))


def _remembering(generator: Generator, count: int, epochs: int, step: float, memory_days: tuple[float, float]) -> Array:
    """(count, epochs) of unit variance: autoregressions of first order, `step` days from epoch to epoch."""
    kept = np.exp(-step / generator.uniform(*memory_days, count))
    series = generator.standard_normal((count, epochs))
    for epoch in range(1, epochs):
        series[:, epoch] = kept * series[:, epoch - 1] + np.sqrt(1 - kept**2) * series[:, epoch]
    return series
