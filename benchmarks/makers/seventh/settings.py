"""What cities are made of: by kind what satellites see and how houses move, and what all cities have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]
Range = tuple[float, float]

WAVELENGTH_MM = {"X": 31.0, "C": 55.5}
INCIDENCE_DEG = {"X": (22.0, 42.0), "C": (30.0, 45.0)}


@dataclass(frozen=True)
class Invented:
    """Acquisitions and noise that are no real product's."""

    first_day: str
    revisit_days: int
    epochs: int
    noise_mm: Range
    """Standard deviation of a scatterer's own noise."""


@dataclass(frozen=True)
class Kind:
    """One kind of city."""

    band: str
    invented: Invented | None
    """None: epochs and noise are those of real products."""
    position_m: Range
    """Standard deviation of positions in range on the ground, one a building."""
    scatterers_middle: float
    """Median on X band, mean on C band, of the number on a building, all tracks together."""
    scatterers_spread: float
    """Of the logarithm of that number on X band, of the number on C band."""
    scatterers: tuple[int, int]
    damaged: float = 0.75
    """Share of buildings with a hinge."""
    least_tilt: float = 1e-5
    hinge_power: Range = (1.2, 2.0)


_SENTINEL = Kind("C", Invented("2019-01-03", 6, 200, (2.0, 5.0)), (0.5, 6.0), 12, 5, (2, 20))
KINDS = {
    "xband": Kind("X", Invented("2021-01-05", 11, 100, (1.0, 2.0)), (0.2, 2.0), 46, 0.5, (20, 150)),
    "sentinel": _SENTINEL,
    "sentinel_12_days": replace(_SENTINEL, invented=Invented("2019-01-03", 12, 150, (2.0, 5.0))),
    "sentinel_real": replace(
        _SENTINEL, invented=None, position_m=(0.5, 4.0), damaged=0.8, least_tilt=5e-6, hinge_power=(1.3, 2.2)
    ),
}


def log_uniform(generator: Generator, low: float, high: float) -> float:
    """A number between two bounds, every factor as likely as any other."""
    return float(np.exp(generator.uniform(np.log(low), np.log(high))))
