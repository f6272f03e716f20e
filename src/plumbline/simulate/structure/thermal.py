"""Yearly growth and shrinkage of a building with the temperature of the air."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.sources.epochs import DAYS_A_YEAR

Array = NDArray[np.float64]
WARMEST_DAY = 200
"""Day of the year when structures are warmest, about the middle of July."""


@dataclass(frozen=True)
class Thermal:
    """Thermal motion of B buildings."""

    expansion: Array
    """(B,) coefficient of linear expansion, 1/K."""
    temperature: Array
    """(B,) amplitude of the yearly temperature, K."""
    fixed: Array
    """(B, 2) the point in plan that stays in place, m in the building's frame."""
    delay: Array
    """(B,) days by which the structure follows the air."""

    def field(self, index: NDArray[np.intp], x: Array, y: Array, height: Array) -> tuple[Array, Array, Array]:
        """Amplitude of vertical, along-x and along-y displacement, mm: `a h dT` and `a (x - xc) dT`."""
        stretch = 1000 * self.expansion[index] * self.temperature[index]
        return stretch * height, stretch * (x - self.fixed[index, 0]), stretch * (y - self.fixed[index, 1])

    def season(self, index: NDArray[np.intp], day_of_year: Array) -> Array:
        """(b, T) yearly course of buildings `index`, from -1 to 1, on days (T,) counted from a first of January."""
        phase = 2 * np.pi * (day_of_year[None, :] - WARMEST_DAY - self.delay[index, None]) / DAYS_A_YEAR
        return np.asarray(np.cos(phase), float)


def draw_thermal(rng: np.random.Generator, side: Array) -> Thermal:
    """Concrete to steel, 5e-6 to 1.2e-5 /K, under 8 to 12 K a year; fixed near the middle of sides (B, 2)."""
    count = len(side)
    return Thermal(
        expansion=rng.uniform(5e-6, 1.2e-5, count),
        temperature=rng.uniform(8, 12, count),
        fixed=side * rng.uniform(-0.25, 0.25, (count, 2)),
        delay=rng.normal(0, 12, count),
    )
