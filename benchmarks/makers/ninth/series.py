"""Draw what goes on in time: courses from 0 on the first day to 1 on the last, noise, and gaps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.makers.ninth.settings import Array, Band

KINDS = ("linear", "exponential", "onset", "accelerating")
TIME, START, LASTS, POWER = (0.2, 1.0), (0.1, 0.6), (0.3, 1.0), (1.5, 3.0)
"""Of exponential: its time; of onset: its day, and how much of the rest it takes; of accelerating."""
LATE, SUDDEN, QUICK, TURN = (0.8, 0.95), (0.1, 0.95), 5.0, 0.9
"""Beginning of late onsets, and day of a movement between two epochs; a movement that becomes so many times as fast at
that share of the time."""
COURSES = {
    "any": KINDS,
    "late": ("late",),
    "sudden": ("sudden",),
    "quickening": ("quickening",),
    "linear": ("linear",),
}
"""What `--courses` asks of the failures."""


class Course(NamedTuple):
    """How much of a movement has happened, by the share of the time that is over."""

    kind: str
    first: float
    second: float

    @property
    def begins(self) -> float:
        """Return the share of the time at which it begins."""
        return self.first if self.kind in ("onset", "late", "sudden") else 0.0

    def at(self, share: Array) -> Array:
        """Return (E,) of shares (E,)."""
        if self.kind == "exponential":
            return np.asarray(np.expm1(-share / self.first) / np.expm1(-1 / self.first))
        if self.kind == "sudden":
            return np.asarray((share > self.first).astype(float))
        if self.kind == "quickening":
            moved = share + (QUICK - 1) * np.maximum(share - self.first, 0)
            return np.asarray(moved / (1 + (QUICK - 1) * (1 - self.first)))
        if self.kind in ("onset", "late"):
            way = np.clip((share - self.first) / (self.second * (1 - self.first)), 0, 1)
            return np.asarray(way * (2 - way))
        return np.asarray(share**self.first)


def draw_course(generator: Generator, courses: str = "any") -> Course:
    """Draw one of the kinds of `COURSES`."""
    kinds = COURSES[courses]
    kind = kinds[int(generator.integers(len(kinds)))]
    first = {
        "linear": (1.0, 1.0),
        "exponential": TIME,
        "onset": START,
        "accelerating": POWER,
        "late": LATE,
        "sudden": SUDDEN,
        "quickening": (TURN, TURN),
    }[kind]
    return Course(kind, generator.uniform(*first), generator.uniform(*LASTS))


SLOW = (0.15, 0.45)
"""Share of a scatterer's variance that is correlated in time."""
MEMORY_DAYS, COMMON_MEMORY_DAYS = (15.0, 80.0), (10.0, 50.0)
"""After which 1/e of a value is left."""
OUTLIERS, OUTLYING = 0.02, (3.0, 6.0)
"""Share of values, and by how many standard deviations they are off."""
JUMPS, QUIET = 0.03, 0.1
"""Share of series that jump by half a wavelength; at the beginning and the end of the time none does."""
GAPS, IN_ONE = (0.05, 0.2), 0.4
"""Share of values that are missing, and of these, of those in one piece."""


def draw_noise(
    generator: Generator, band: Band, owner: NDArray[np.intp], days: NDArray[np.int64]
) -> tuple[Array, Array]:
    """Draw noise (P, E), mm, and its standard deviations (P,) beside what a building has in common.

    Args:
        generator: of everything drawn.
        band: the satellite.
        owner: (P,) buildings of scatterers.
        days: (E,) of the epochs.
    """
    points, epochs = len(owner), len(days)
    size = generator.uniform(*band.noise_mm, points)
    slow = generator.uniform(*SLOW, points)
    noise = np.sqrt(1 - slow)[:, None] * generator.standard_normal((points, epochs))
    noise += np.sqrt(slow)[:, None] * _remember(generator, points, days, MEMORY_DAYS)
    outlying = generator.random((points, epochs)) < OUTLIERS
    many = int(outlying.sum())
    noise[outlying] += generator.choice([-1.0, 1.0], many) * generator.uniform(*OUTLYING, many)
    noise *= size[:, None]
    buildings = int(owner.max()) + 1
    common = generator.uniform(*band.common_mm, buildings)[:, None]
    noise += (common * _remember(generator, buildings, days, COMMON_MEMORY_DAYS))[owner]
    jumping = np.flatnonzero(generator.random(points) < JUMPS)
    quiet = int(np.ceil(QUIET * epochs))
    since = generator.integers(quiet, epochs - quiet, len(jumping))
    jump = generator.choice([-0.5, 0.5], len(jumping)) * band.wavelength_mm
    noise[jumping] += jump[:, None] * (np.arange(epochs) >= since[:, None])
    return noise, size


def draw_gaps(generator: Generator, points: int, epochs: int) -> NDArray[np.bool_]:
    """Draw where (P, E) a value is missing: single ones, and some in one piece."""
    share = generator.uniform(*GAPS, points)[:, None]
    single = generator.random((points, epochs)) < (1 - IN_ONE) * share
    start = generator.integers(0, epochs, points)[:, None]
    epoch = np.arange(epochs)
    return np.asarray(single | ((epoch >= start) & (epoch < start + IN_ONE * share * epochs)))


def _remember(generator: Generator, count: int, days: NDArray[np.int64], memory: tuple[float, float]) -> Array:
    """Draw autoregressions (count, E) of first order and unit variance; a longer gap is forgotten more."""
    lasting = generator.uniform(*memory, count)
    series = generator.standard_normal((len(days), count))
    for epoch, gap in enumerate(np.diff(days), 1):
        kept = np.exp(-gap / lasting)
        series[epoch] = kept * series[epoch - 1] + np.sqrt(1 - kept**2) * series[epoch]
    return np.asarray(series.T)
