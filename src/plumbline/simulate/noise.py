"""What else is in a displacement history: correlated noise, bad epochs, unwrapping jumps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def correlated(rng: np.random.Generator, sigma: Array, epochs: int, rho: float) -> Array:
    """(N, epochs) stationary first-order autoregressive noise.

    Args:
        rng: the generator to draw from.
        sigma: (N,) standard deviation, mm.
        epochs: number of regular epochs.
        rho: correlation of one epoch with the next, 0 to below 1.
    """
    # An epoch a row, so that a step is one pass over memory.
    noise = rng.standard_normal((epochs, len(sigma)))
    noise *= sigma
    fresh = np.sqrt(1 - rho**2)  # the first epoch keeps its deviation, so that the process starts stationary
    for epoch in range(1, epochs):
        noise[epoch] *= fresh
        noise[epoch] += rho * noise[epoch - 1]
    return np.ascontiguousarray(noise.T)


def add_bad_epochs(rng: np.random.Generator, series: Array, sigma: Array, share: float) -> None:
    """Put a `share` of the entries of `series` (N, E) off by 3 to 8 times `sigma` (N,) in either direction."""
    hits = rng.binomial(series.size, share)
    # Entries are drawn and not tried one by one; of a share of 2 %, 1 % of the hits meet an entry twice.
    at = rng.integers(0, series.size, hits)
    size = rng.uniform(3, 8, hits) * rng.choice([-1.0, 1.0], hits)
    series.reshape(-1)[at] += size * sigma[at // series.shape[1]]


def add_jumps(rng: np.random.Generator, series: Array, share: float, wavelength_mm: float) -> None:
    """Unwrapping errors: put a `share` of histories (N, E) half a wavelength off from some epoch on.

    Half of them come back after a while.
    """
    count, epochs = series.shape
    hit = np.flatnonzero(rng.random(count) < share)
    start = rng.integers(1, epochs, len(hit))
    length = np.where(rng.random(len(hit)) < 0.5, epochs, rng.integers(1, max(2, epochs // 2), len(hit)))
    epoch = np.arange(epochs)[None, :]
    off = (epoch >= start[:, None]) & (epoch < (start + length)[:, None])
    series[hit] += off * (rng.choice([-0.5, 0.5], len(hit)) * wavelength_mm)[:, None]
