"""What else is in a displacement history: correlated noise, bad epochs, unwrapping jumps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

Array = NDArray[np.float64]


def correlated(rng: np.random.Generator, sigma: Array, epochs: int, rho: float) -> Array:
    """(N, epochs) stationary first-order autoregressive noise.

    Args:
        rng: the generator to draw from.
        sigma: (N,) standard deviation, mm.
        epochs: number of regular epochs.
        rho: correlation of one epoch with the next, 0 to below 1.
    """
    white = rng.standard_normal((len(sigma), epochs))
    white[:, 1:] *= np.sqrt(1 - rho**2)  # the first epoch keeps 1, so that the process starts stationary
    return np.asarray(lfilter([1.0], [1.0, -rho], white, axis=1) * sigma[:, None], float)


def bad_epochs(rng: np.random.Generator, sigma: Array, epochs: int, share: float) -> Array:
    """(N, epochs) zero but for a `share` of entries, off by 3 to 8 times `sigma` (N,) in either direction."""
    hit = rng.random((len(sigma), epochs)) < share
    size = rng.uniform(3, 8, (len(sigma), epochs)) * rng.choice([-1.0, 1.0], (len(sigma), epochs))
    return np.where(hit, size * sigma[:, None], 0.0)


def jumps(rng: np.random.Generator, count: int, epochs: int, share: float, wavelength_mm: float) -> Array:
    """(N, epochs) unwrapping errors: a `share` of histories is half a wavelength off from some epoch on.

    Half of them come back after a while.
    """
    hit = rng.random(count) < share
    start = rng.integers(1, epochs, count)
    length = np.where(rng.random(count) < 0.5, epochs, rng.integers(1, max(2, epochs // 2), count))
    epoch = np.arange(epochs)[None, :]
    off = hit[:, None] & (epoch >= start[:, None]) & (epoch < (start + length)[:, None])
    return off * (rng.choice([-0.5, 0.5], count) * wavelength_mm)[:, None]
