"""Draw the degradation between ground and product: few points, noise, turbulent delay, unwrapping errors.

The kinds are the degradation domains that adapters are trained for; `plain` has a little of each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Array = NDArray[np.float64]
DOMAINS = ("plain", "noise", "atmosphere", "unwrapping", "sparse")
LEVELS = ("easy", "medium", "hard")
TURBULENCE_EXPONENT = 8 / 3
"""Of the two-dimensional power spectrum of turbulent delay at city scales (Hanssen 2001, section 4.7)."""
TURBULENCE_GRID_M = 40.0


@dataclass(frozen=True)
class Degradation:
    """Degradation of one scene."""

    density: float
    """Scatterers of a track a square kilometre."""
    noise_mm: float
    """Standard deviation of a scatterer's noise at one epoch."""
    gross: float
    """Share of the scatterers that move by themselves."""
    atmosphere_mm: float
    """Standard deviation of turbulent delay that is left in the change over the observation."""
    patches: int
    """Of each track, that are off by half a wavelength from some epoch on."""
    position_m: float
    """Standard deviation of the position's error, each axis."""


def draw_degradation(rng: np.random.Generator, domain: str, level: str) -> Degradation:
    """Draw the degradation for a domain and a level of difficulty: each range is cut in thirds, easy to hard."""
    third = LEVELS.index(level)

    def between(easy: float, hard: float) -> float:
        return float(easy * (hard / easy) ** ((third + rng.random()) / 3))

    noise, gross = between(1.5, 5.0), between(0.004, 0.03)
    density, atmosphere = between(3000, 400), between(0.1, 1.2)
    patches = int(rng.random() < 0.05 * (1 + third))
    if domain == "noise":
        noise, gross = between(6, 16), between(0.05, 0.2)
    elif domain == "atmosphere":
        atmosphere = between(2, 10)
    elif domain == "unwrapping":
        patches = 1 + third + int(rng.integers(0, 2))
    elif domain == "sparse":
        density = between(250, 40)
    return Degradation(density, noise, gross, atmosphere, patches, float(rng.uniform(0.5, 4)))


def turbulence(rng: np.random.Generator, count: int, extent: float) -> Array:
    """Draw fields (count, rows, columns) of unit variance with a power-law spectrum over `extent` m.

    The spectrum falls with the wave number to the power of `TURBULENCE_EXPONENT`; periodic over twice the extent.
    """
    size = max(8, int(np.ceil(extent / TURBULENCE_GRID_M)))
    wave = np.hypot(np.fft.fftfreq(2 * size)[:, None], np.fft.rfftfreq(2 * size)[None, :])
    wave[0, 0] = np.inf
    white = np.fft.rfft2(rng.standard_normal((count, 2 * size, 2 * size)))
    field = np.fft.irfft2(white * wave ** (-TURBULENCE_EXPONENT / 2), (2 * size, 2 * size))[:, :size, :size]
    return np.asarray(field / np.sqrt((field**2).mean()) if count else field, float)


def delays(rng: np.random.Generator, east_north: Array, extent: float, sigma: float, epochs: int) -> Array:
    """Draw turbulent delay (N, epochs), mm, with deviation `sigma` at each epoch, independent between epochs."""
    fields = turbulence(rng, epochs, extent)
    size = fields.shape[-1]
    place = ((east_north + extent / 2) / extent * size - 0.5).T[::-1]
    seen = [ndimage.map_coordinates(field, place, order=1, mode="nearest") for field in fields]
    return np.asarray(sigma * np.stack(seen, axis=1), float)


def unwrapping_patches(
    rng: np.random.Generator, east_north: Array, extent: float, count: int, time: Array, wavelength_mm: float
) -> Array:
    """Draw `count` blobs of 40 to 250 m, half a wavelength off from some epoch on (N, T), mm; `time` (T,) 0 to 1."""
    off = np.zeros((len(east_north), len(time)))
    for _ in range(count):
        centre, radius = rng.uniform(-0.5, 0.5, 2) * extent, np.exp(rng.uniform(np.log(40), np.log(250)))
        offset = east_north - centre
        angle = np.arctan2(offset[:, 1], offset[:, 0])
        waves = sum(0.3 / k * np.cos(k * angle + rng.uniform(-np.pi, np.pi)) for k in (1, 2, 3))
        inside = np.hypot(*offset.T) < radius * (1 + waves)
        since = time >= rng.uniform(0.05, 0.95)
        off += inside[:, None] * since * float(rng.choice([-0.5, 0.5])) * wavelength_mm
    return off
