"""Move buildings without damage: settlement and tilt as a whole, and yearly growth and shrinkage with the
temperature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.simulate.random_numbers import log_uniform
from plumbline.sources.points.epochs import DAYS_A_YEAR

Array = NDArray[np.float64]
MOST_TILT = 5.0
"""mm/m."""
LEANING_SHARE = 0.5
"""Share of the buildings whose tilt is as likely large as small; of the others it is mostly small."""


@dataclass(frozen=True)
class Rigid:
    """Rigid motion of B buildings about the centre of their footprint."""

    settlement: Array
    """(B,) vertical displacement of the centre, mm, up positive."""
    tilt: Array
    """(B, 2) rise along x and y, mm/m."""

    def field(self, index: NDArray[np.intp] | int, x: Array, y: Array, height: Array) -> tuple[Array, Array, Array]:
        """Return vertical, along-x and along-y displacement, mm, at heights in m above the foundation.

        A small rotation that lifts the side at +x moves what stands above it towards -x: `-tilt * height`.
        """
        tilt_x, tilt_y = self.tilt[index, 0], self.tilt[index, 1]
        return self.settlement[index] + tilt_x * x + tilt_y * y, -tilt_x * height, -tilt_y * height


def draw_rigid(rng: np.random.Generator, count: int) -> Rigid:
    """Draw settlement 0 to 100 mm and tilt 0 to 5e-3, log-uniform so that small ones are common; a few rise.

    On half of the buildings any tilt up to the largest is as likely: by some mm/m, points that are not where the
    product says move by more than their noise, and a model has to know that from damage.
    """
    settlement = -log_uniform(rng, 0.5, 100, count)
    settlement[rng.random(count) < 0.07] *= -0.2
    settlement[rng.random(count) < 0.1] = 0
    size, direction = log_uniform(rng, 0.01, MOST_TILT, count), rng.uniform(-np.pi, np.pi, count)
    leaning = rng.random(count) < LEANING_SHARE
    size[leaning] = rng.uniform(0, MOST_TILT, int(leaning.sum()))
    return Rigid(settlement, size[:, None] * np.stack([np.cos(direction), np.sin(direction)], axis=1))


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
        """Return the amplitude of vertical, along-x and along-y displacement, mm: `a h dT` and `a (x - xc) dT`."""
        stretch = 1000 * self.expansion[index] * self.temperature[index]
        return stretch * height, stretch * (x - self.fixed[index, 0]), stretch * (y - self.fixed[index, 1])

    def season(self, index: NDArray[np.intp], day_of_year: Array) -> Array:
        """Return the yearly course (b, T) of buildings `index`, from -1 to 1, on days (T,) since a first of January."""
        phase = 2 * np.pi * (day_of_year[None, :] - WARMEST_DAY - self.delay[index, None]) / DAYS_A_YEAR
        return np.asarray(np.cos(phase), float)


def draw_thermal(rng: np.random.Generator, side: Array) -> Thermal:
    """Draw concrete to steel, 5e-6 to 1.2e-5 /K, under 8 to 12 K a year; fixed near the middle of sides (B, 2)."""
    count = len(side)
    return Thermal(
        expansion=rng.uniform(5e-6, 1.2e-5, count),
        temperature=rng.uniform(8, 12, count),
        fixed=side * rng.uniform(-0.25, 0.25, (count, 2)),
        delay=rng.normal(0, 12, count),
    )
