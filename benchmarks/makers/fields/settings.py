"""Set what a scene is drawn from: its square, its domains, and the ranges that all of them share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]
Range = tuple[float, float]

CRS = 3035
ORIGIN = (4_321_000.0, 3_210_000.0)
"""Projection centre of EPSG:3035, where grid north is true north: south-west corner of all scenes, m."""
CELL_M, CELLS = 10.0, 128
SIDE_M = CELL_M * CELLS
WAVELENGTH_MM = 55.466
"""Sentinel-1."""
FIRST_DAY = "2021-03-02"
PEAK_MM = (5.0, 100.0)
"""Of each movement."""
MOVEMENTS = (1, 4)
"""Fewest and most in a scene."""


@dataclass(frozen=True)
class Domain:
    """How a scene is degraded."""

    density_km2: Range = (1500.0, 1500.0)
    """Points of one track per square kilometre."""
    noise_mm: Range = (2.0, 5.0)
    """Standard deviation at an epoch; one value a point."""
    outliers: float = 0.02
    """Share of values."""
    screen_mm: Range = (0.5, 1.2)
    """Standard deviation within the scene of the turbulent delay left in an epoch; one value a track."""
    screen_memory_days: Range = (1.0, 5.0)
    """After which 1/e of a delay is left; one value a track."""
    patches: tuple[int, int] = (0, 0)
    """Fewest and most areas of a track that are off by half a wavelength from some epoch on."""


DOMAINS = {
    "plain": Domain(),
    "noise": Domain(noise_mm=(5.0, 9.0), outliers=0.06),
    "atmosphere": Domain(screen_mm=(3.0, 6.0), screen_memory_days=(3.0, 15.0)),
    "unwrapping": Domain(patches=(2, 5)),
    "sparse": Domain(density_km2=(150.0, 300.0)),
}


def log_uniform(generator: Generator, bounds: Range) -> float:
    """Draw a number with an even logarithm."""
    return float(np.exp(generator.uniform(*np.log(bounds))))


def draw_place(generator: Generator, margin: float = 0.12) -> Array:
    """Draw a place (2,) in the scene, m from its south-west corner, at least a share `margin` of its side inside."""
    return np.asarray(generator.uniform(margin, 1 - margin, 2) * SIDE_M)


def cell_centres() -> Array:
    """Return (CELLS * CELLS, 2) centres, m from the south-west corner, by rows from north to south."""
    along = (np.arange(CELLS) + 0.5) * CELL_M
    east, north = np.meshgrid(along, along[::-1])
    return np.column_stack([east.ravel(), north.ravel()])
