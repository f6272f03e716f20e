"""Draw the errors in displacement histories: noise with a short and a long memory, bad epochs, unwrapping jumps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

Array = NDArray[np.float64]
MEMORY_SHARE, MOST_MEMORY = 0.5, 0.6
"""Share of the buildings whose noise has a long memory, and most of its variance that has it."""


@dataclass(frozen=True)
class Law:
    """Correlation of noise in time: one part has a short memory, the rest a long one."""

    rho: float
    """Correlation of the short one, first-order autoregressive, from one epoch to the next; 0 to below 1."""
    exponent: float
    """Of the long one: its power falls with frequency to the power of minus this; 1: flicker noise, 2: random walk."""
    memory: float
    """Epochs for which that goes on: at lower frequencies its power is level. With an exponent of 2 the long one is
    autoregressive, too."""

    def draw(self, rng: np.random.Generator, sigma: Array, memory: Array, epochs: int) -> Array:
        """Draw noise (N, epochs).

        Args:
            rng: the generator to draw from.
            sigma: (N,) standard deviation, mm; of the long memory, about its mean over the epochs.
            memory: (N,) share of the variance with a long memory, 0 to 1.
            epochs: number of regular epochs.
        """
        noise = correlated(rng, sigma * np.sqrt(1 - memory), epochs, self.rho)
        long = np.flatnonzero(memory)
        noise[long] += filtered(rng, (sigma * np.sqrt(memory))[long], epochs, self.response(2 * epochs))
        return noise

    def line_variance(self, memory: Array, epochs: int) -> Array:
        """Return the variance (N,) of a straight line's change over the observation, relative to that of one epoch.

        Of the long memory by what each impulse of its white noise changes the fit.
        """
        short = line_variance(epochs, self.rho)
        long = _line_variance(self.response(2 * epochs), epochs)
        return np.asarray((1 - memory) * short + memory * long, float)

    def response(self, epochs: int) -> Array:
        """Return the impulse response (epochs,) of the long memory, a generalised Gauss-Markov process (Langbein 2004).

        Fractional integration of order `exponent / 2` (Hosking 1981) that forgets.
        """
        lag = np.arange(1, epochs)
        each = (lag - 1 + self.exponent / 2) / lag * np.exp(-1 / self.memory)
        return np.asarray(np.r_[1.0, np.cumprod(each)], float)


def line_variance(epochs: int, rho: float) -> float:
    """Return the variance of a straight line's change over `epochs` in autoregressive noise, relative to an epoch's."""
    return 12 / epochs * (1 + rho) / (1 - rho)


def draw_memory(rng: np.random.Generator, count: int) -> Array:
    """Draw shares (count,) of variance with a long memory: 0 for half, up to `MOST_MEMORY` for the others."""
    return np.asarray((rng.random(count) < MEMORY_SHARE) * rng.uniform(0, MOST_MEMORY, count), float)


def correlated(rng: np.random.Generator, sigma: Array, epochs: int, rho: float) -> Array:
    """Draw stationary first-order autoregressive noise (N, epochs).

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


def filtered(rng: np.random.Generator, sigma: Array, epochs: int, taps: Array) -> Array:
    """Draw white noise (N, epochs) through a filter that has run for `epochs` epochs before the first.

    Args:
        rng: the generator to draw from.
        sigma: (N,) standard deviation that is expected about the mean over the epochs, mm: a random walk has no other.
        epochs: number of regular epochs.
        taps: (2 epochs,) what an impulse leaves.
    """
    size = fft.next_fast_len(4 * epochs, real=True)
    white = fft.rfft(rng.standard_normal((len(sigma), 2 * epochs)), size)
    series = fft.irfft(white * fft.rfft(taps, size), size)[:, epochs : 2 * epochs]
    return np.asarray(series * (sigma / np.sqrt(_variance(taps, epochs)))[:, None], float)


def _variance(taps: Array, epochs: int) -> float:
    """Return the expected variance about the mean over the second half of `taps` (2 `epochs`,)."""
    power = np.cumsum(taps**2)[epochs:].sum()
    sums = np.r_[np.zeros(epochs), np.cumsum(taps)]
    # How often each impulse, before and during the epochs, enters the sum over them.
    entered = sums[epochs:] - sums[: 2 * epochs]
    return float((power - (entered**2).sum() / epochs) / epochs)


def _line_variance(taps: Array, epochs: int) -> float:
    """Return the variance of a straight line's change over the epochs, relative to `_variance`."""
    time = np.arange(epochs) - (epochs - 1) / 2
    weight = time / (time**2).sum() * epochs
    change = np.correlate(np.r_[np.zeros(epochs), weight], taps, "full")[2 * epochs - 1 :]  # by each impulse
    return float((change**2).sum() / _variance(taps, epochs))


def add_bad_epochs(rng: np.random.Generator, series: Array, sigma: Array, share: float) -> None:
    """Shift a `share` of the entries of `series` (N, E) by 3 to 8 times `sigma` (N,) in either direction."""
    hits = rng.binomial(series.size, share)
    # Entries are drawn and not tried one by one; of a share of 2 %, 1 % of the hits meet an entry twice.
    at = rng.integers(0, series.size, hits)
    size = rng.uniform(3, 8, hits) * rng.choice([-1.0, 1.0], hits)
    series.reshape(-1)[at] += size * sigma[at // series.shape[1]]


def add_jumps(rng: np.random.Generator, series: Array, share: float, wavelength_mm: float) -> None:
    """Add unwrapping errors: shift a `share` of histories (N, E) by half a wavelength from some epoch on.

    Half of them come back after a while.
    """
    count, epochs = series.shape
    hit = np.flatnonzero(rng.random(count) < share)
    start = rng.integers(1, epochs, len(hit))
    length = np.where(rng.random(len(hit)) < 0.5, epochs, rng.integers(1, max(2, epochs // 2), len(hit)))
    epoch = np.arange(epochs)[None, :]
    off = (epoch >= start[:, None]) & (epoch < (start + length)[:, None])
    series[hit] += off * (rng.choice([-0.5, 0.5], len(hit)) * wavelength_mm)[:, None]
