"""Draw the noise of time series: white and slow, outliers, seasons and gaps."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.fields.settings import Array, Domain

SLOW, MEMORY_DAYS = (0.1, 0.4), (15.0, 70.0)
"""Share of a point's variance that is correlated in time, and after which time 1/e of it is left."""
OUTLYING = (3.0, 7.0)
"""By how many standard deviations outliers are off."""
SEASON_MM = (0.0, 0.12)
"""Half the annual movement of a building, by the height of the point, mm/m (thermal expansion of 12e-6/K by 10 K)."""
GAPS = (0.0, 0.1)
"""Share of values of a point that are missing."""


def draw_noise(generator: Generator, domain: Domain, points: int, days: NDArray[np.int64]) -> tuple[Array, Array]:
    """Draw noise (P, E), mm, and its standard deviation (P,), mm."""
    size, slow = generator.uniform(*domain.noise_mm, points), generator.uniform(*SLOW, points)
    noise = np.sqrt(1 - slow)[:, None] * generator.standard_normal((points, len(days)))
    noise += np.sqrt(slow)[:, None] * remember(generator, generator.uniform(*MEMORY_DAYS, points), days)
    outlying = generator.random(noise.shape) < domain.outliers
    many = int(outlying.sum())
    noise[outlying] += generator.choice([-1.0, 1.0], many) * generator.uniform(*OUTLYING, many)
    return noise * size[:, None], size


def remember(generator: Generator, memory_days: Array, days: NDArray[np.int64]) -> Array:
    """Draw autoregressions (P, E) of first order and unit variance; after a longer gap less is left."""
    series = generator.standard_normal((len(days), len(memory_days)))
    for epoch, gap in enumerate(np.diff(days), 1):
        kept = np.exp(-gap / memory_days)
        series[epoch] = kept * series[epoch - 1] + np.sqrt(1 - kept**2) * series[epoch]
    return np.asarray(series.T)


def draw_season(generator: Generator, height: Array, day_of_year: Array) -> Array:
    """Draw what warmth does to points (P, E), mm towards the satellite: most at the end of July."""
    half = generator.uniform(*SEASON_MM, len(height)) * height
    return np.asarray(half[:, None] * np.cos(2 * np.pi * (day_of_year - 210) / 365.25))


def draw_gaps(generator: Generator, points: int, epochs: int) -> NDArray[np.bool_]:
    """Draw where (P, E) a value is missing."""
    return np.asarray(generator.random((points, epochs)) < generator.uniform(*GAPS, points)[:, None])
