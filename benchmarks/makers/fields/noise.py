"""Draw what a track gets wrong: delays of the atmosphere, patches unwrapped wrongly, noise, outliers, seasons, gaps."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, map_coordinates

from benchmarks.makers.fields.settings import CELL_M, CELLS, SIDE_M, WAVELENGTH_MM, Array, Domain

POWER = -11 / 3
"""Of the two-dimensional spectrum of turbulent delay below 2 km (Hanssen 2001, section 4.7)."""
LARGEST = 2
"""Screens are made on a square so many times as wide, since they repeat at its edges."""
PATCH_M, ROUGH = (40.0, 170.0), 0.35
"""Radius; and how far an edge departs from a circle, by the radius."""
SINCE = (0.1, 0.9)
"""When a patch jumps, by the share of the epochs."""


def draw_screens(generator: Generator, domain: Domain, days: NDArray[np.int64], place: Array) -> Array:
    """Draw delays (P, E) of one track at places (P, 2), mm; each epoch's mean over the scene is zero."""
    size, memory = generator.uniform(*domain.screen_mm), generator.uniform(*domain.screen_memory_days)
    delays = np.empty((len(place), len(days)))
    screen, last = None, days[0]
    for epoch, day in enumerate(days):
        fresh = draw_screen(generator)
        kept = 0.0 if screen is None else np.exp(-(day - last) / memory)
        screen = fresh if screen is None else kept * screen + np.sqrt(1 - kept**2) * fresh
        delays[:, epoch] = size * _at(screen, place)
        last = day
    return delays


def draw_screen(generator: Generator) -> Array:
    """Draw one screen (CELLS, CELLS) of mean 0 whose expected variance over the scene is about 1; first row south."""
    count = LARGEST * CELLS
    frequency = np.hypot(np.fft.fftfreq(count)[:, None], np.fft.rfftfreq(count)[None])
    frequency[0, 0] = np.inf
    amplitude = frequency ** (POWER / 2)
    white = np.fft.rfft2(generator.standard_normal((count, count)))
    screen = np.fft.irfft2(white * amplitude, (count, count))[:CELLS, :CELLS]
    screen -= screen.mean()
    return np.asarray(screen / _expected(count))


def draw_patches(
    generator: Generator, domain: Domain, epochs: int, place: Array
) -> tuple[Array, list[dict[str, object]]]:
    """Draw jumps (P, E) by half a wavelength at places (P, 2), mm, and what they are.

    A patch is a disc with a rough edge; all its points jump at one epoch and stay there.
    """
    jumps, about = np.zeros((len(place), epochs)), []
    for _ in range(int(generator.integers(domain.patches[0], domain.patches[1] + 1))):
        centre, radius = generator.uniform(0, SIDE_M, 2), generator.uniform(*PATCH_M)
        rough = gaussian_filter(generator.standard_normal((CELLS, CELLS)), 0.3 * radius / CELL_M, mode="wrap")
        edge = radius * (1 + ROUGH * _at(rough / rough.std(), place))
        inside = np.hypot(*(place - centre).T) < edge
        since = int(generator.uniform(*SINCE) * epochs)
        jump = float(generator.choice([-0.5, 0.5]) * WAVELENGTH_MM)
        jumps[inside, since:] += jump
        about.append({"centre_m": centre.tolist(), "radius_m": radius, "jump_mm": jump, "points": int(inside.sum())})
    return jumps, about


def _at(grid: Array, place: Array) -> Array:
    """Interpolate a grid of cell centres, first row south, at places (P, 2)."""
    column, row = place.T / CELL_M - 0.5
    return np.asarray(map_coordinates(grid, [row, column], order=1, mode="nearest"))


_SCALE: dict[int, float] = {}


def _expected(count: int) -> float:
    """Root of the mean variance over the scene of 32 screens with a seed of their own."""
    if count not in _SCALE:
        generator = np.random.default_rng(32)
        frequency = np.hypot(np.fft.fftfreq(count)[:, None], np.fft.rfftfreq(count)[None])
        frequency[0, 0] = np.inf
        white = np.fft.rfft2(generator.standard_normal((32, count, count)))
        screens = np.fft.irfft2(white * frequency ** (POWER / 2), (count, count))[:, :CELLS, :CELLS]
        _SCALE[count] = float(np.sqrt(screens.var(axis=(1, 2)).mean()))
    return _SCALE[count]


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
