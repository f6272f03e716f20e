"""What the ninth maker draws from: two satellites, and the ranges of everything else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]
Range = tuple[float, float]

CRS, ORIGIN = 3035, (4_321_000.0, 3_210_000.0)
"""EGMS's own system, and a place where its north is true north."""
FIRST_DAY = "2020-01-06"


@dataclass(frozen=True)
class Band:
    """A satellite."""

    wavelength_mm: float
    revisit_days: tuple[int, ...]
    """One is drawn a city."""
    years: Range
    points: float
    """Mean number on a building, both tracks together."""
    points_range: tuple[int, int]
    noise_mm: Range
    """Standard deviation at an epoch; one value a scatterer."""
    common_mm: Range
    """Standard deviation of the part that scatterers of a building share; one value a building and track."""
    position_m: Range
    """Size of a position error, log-uniform; one value a scatterer."""
    incidence_deg: Range


BANDS = {
    "X": Band(31.0, (11,), (1.5, 3.0), 46.0, (20, 150), (1.0, 2.0), (1.0, 3.0), (0.2, 2.0), (28.0, 40.0)),
    "C": Band(55.5, (6, 12), (3.0, 5.0), 12.0, (2, 20), (2.0, 5.0), (2.0, 5.0), (0.5, 10.0), (32.0, 43.0)),
}
HEADING_DEG = {"A": 349.0, "D": 191.0}
"""Of the ascending and the descending track, clockwise from north, give or take 2.5."""

TARGET_PERMILLE = (0.1, 6.0)
SETTLEMENT_M, TILT = 0.1, 5e-3
"""The most that a whole building does."""
EXPANSION, SWING_K = (5e-6, 1.2e-5), (8.0, 12.0)
"""Of a building: strain a kelvin, and half of the annual range of temperature."""


def log_uniform(generator: Generator, bounds: Range, count: int | None = None) -> Array:
    """Draw numbers with an even logarithm."""
    return np.asarray(np.exp(generator.uniform(*np.log(bounds), count)))
