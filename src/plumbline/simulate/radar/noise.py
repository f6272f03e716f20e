"""Draw the noise of radar series: of each point alone, of neighbours and of the air, and
unwrapping errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import fft, ndimage

from plumbline.core.arrays import Array

BAD_EPOCH_SHARE = 0.02
"""Share of the entries of a series that are off by several standard deviations."""
MEMORY_SHARE, MOST_MEMORY = 0.5, 0.6
"""Share of the buildings whose noise has a long memory, and its largest share of the variance."""
TURBULENCE_EXPONENT = 8 / 3
"""Exponent of the two-dimensional power spectrum of turbulent delay at city scales (Hanssen 2001,
section 4.7)."""
TURBULENCE_GRID_M = 40.0
SHARED_GRID_M = 10.0
"""Side of a cell of the grid of noise that neighbours share."""
DRIFT, WALK = 0.8, 0.6
"""Shares of a line and of a random walk in a scatterer's own movement."""


@dataclass(frozen=True)
class Law:
    """Correlation of noise in time: one part has a short memory, the rest a long one."""

    rho: float
    """Correlation of the short one, first-order autoregressive, from one epoch to the next;
    0 to below 1."""
    exponent: float
    """Exponent of the long one: its power falls with frequency to the power of minus this; 1:
    flicker noise, 2: random walk."""
    memory: float
    """Epochs of that memory: at lower frequencies its power is level. With an exponent of 2 the
    long one is autoregressive, too."""

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
        noise[long] += filtered(
            rng, (sigma * np.sqrt(memory))[long], epochs, self.response(2 * epochs)
        )
        return noise

    def line_variance(self, memory: Array, epochs: int) -> Array:
        """Return the variance (N,) of a straight line's change over the observation,
        relative to that of one epoch.

        For the long memory, by the change of the fit with each impulse of its white noise.
        """
        short = line_variance(epochs, self.rho)
        long = _line_variance(self.response(2 * epochs), epochs)
        return np.asarray((1 - memory) * short + memory * long, float)

    def response(self, epochs: int) -> Array:
        """Return the impulse response (epochs,) of the long memory, a generalised
        Gauss-Markov process (Langbein 2004).

        Fractional integration of order `exponent / 2` (Hosking 1981) that forgets.
        """
        lag = np.arange(1, epochs)
        # Coefficients of (1 - z)^-d with d = exponent / 2: h_k = h_(k-1) (k - 1 + d) / k.
        ratio = (lag - 1 + self.exponent / 2) / lag * np.exp(-1 / self.memory)
        return np.asarray(np.r_[1.0, np.cumprod(ratio)], float)


def line_variance(epochs: int, rho: float) -> float:
    """Return the variance of a straight line's change over `epochs` in autoregressive
    noise, relative to an epoch's."""
    # A slope over T white epochs has the variance 12 sigma^2 / T^3, its change over T epochs
    # 12 sigma^2 / T. Autoregression leaves T (1 - rho) / (1 + rho) effective epochs.
    return 12 / epochs * (1 + rho) / (1 - rho)


def draw_memory(rng: np.random.Generator, count: int) -> Array:
    """Draw shares (count,) of variance with a long memory: 0 for half, up to `MOST_MEMORY`
    for the others."""
    return np.asarray(
        (rng.random(count) < MEMORY_SHARE) * rng.uniform(0, MOST_MEMORY, count), float
    )


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
    return np.ascontiguousarray(autoregressive(noise, rho).T)


def autoregressive(fresh: Array, rho: float) -> Array:
    """Return a stationary first-order autoregressive process (epochs, ...), made of
    independent numbers, in place.

    Args:
        fresh: (epochs, ...) with the process's deviation; the first epoch keeps it. rho:
            correlation of one epoch with the next, 0 to below 1.
    """
    scale = np.sqrt(1 - rho**2)
    for epoch in range(1, len(fresh)):
        fresh[epoch] *= scale
        fresh[epoch] += rho * fresh[epoch - 1]
    return fresh


def filtered(rng: np.random.Generator, sigma: Array, epochs: int, taps: Array) -> Array:
    """Draw white noise (N, epochs) through a filter that has run for `epochs` epochs before
    the first.

    Args:
        rng: the generator to draw from.
        sigma: (N,) standard deviation that is expected about the mean over the epochs, mm:
            a random walk has no other.
        epochs: number of regular epochs.
        taps: (2 epochs,) response to an impulse.
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
    # By each impulse.
    change = np.correlate(np.r_[np.zeros(epochs), weight], taps, "full")[2 * epochs - 1 :]
    return float((change**2).sum() / _variance(taps, epochs))


def add_bad_epochs(rng: np.random.Generator, series: Array, sigma: Array, share: float) -> None:
    """Shift a `share` of the entries of `series` (N, E) by 3 to 8 times `sigma` (N,) in
    either direction."""
    hits = rng.binomial(series.size, share)
    # Entries are drawn and not tried one by one; of a share of 2 %, 1 % of the hits meet an
    # entry twice.
    at = rng.integers(0, series.size, hits)
    size = rng.uniform(3, 8, hits) * rng.choice([-1.0, 1.0], hits)
    series.reshape(-1)[at] += size * sigma[at // series.shape[1]]


def add_jumps(rng: np.random.Generator, series: Array, share: float, wavelength_mm: float) -> None:
    """Add unwrapping errors: shift a `share` of histories (N, E) by half a wavelength from
    some epoch on.

    Half of them come back after a while.
    """
    count, epochs = series.shape
    hit = np.flatnonzero(rng.random(count) < share)
    start = rng.integers(1, epochs, len(hit))
    length = np.where(
        rng.random(len(hit)) < 0.5, epochs, rng.integers(1, max(2, epochs // 2), len(hit))
    )
    epoch = np.arange(epochs)[None, :]
    off = (epoch >= start[:, None]) & (epoch < (start + length)[:, None])
    series[hit] += off * (rng.choice([-0.5, 0.5], len(hit)) * wavelength_mm)[:, None]


def turbulence(rng: np.random.Generator, count: int, extent: float) -> Array:
    """Draw fields (count, rows, columns) of unit variance with a power-law spectrum over
    `extent` m.

    The spectrum falls with the wave number to the power of `TURBULENCE_EXPONENT`; periodic
    over twice the extent.
    """
    size = max(8, int(np.ceil(extent / TURBULENCE_GRID_M)))
    wave = np.hypot(np.fft.fftfreq(2 * size)[:, None], np.fft.rfftfreq(2 * size)[None, :])
    wave[0, 0] = np.inf
    white = np.fft.rfft2(rng.standard_normal((count, 2 * size, 2 * size)))
    # Amplitudes fall with half the exponent of the power.
    field = np.fft.irfft2(white * wave ** (-TURBULENCE_EXPONENT / 2), (2 * size, 2 * size))[
        :, :size, :size
    ]
    return np.asarray(field / np.sqrt((field**2).mean()) if count else field, float)


def delays(
    rng: np.random.Generator,
    east_north: Array,
    extent: float,
    *,
    sigma: float,
    epochs: int,
    rho: float = 0.0,
) -> Array:
    """Draw turbulent delay (N, epochs), mm, with deviation `sigma` at each epoch.

    Args:
        rho: correlation from one epoch to the next.
    """
    fields = autoregressive(turbulence(rng, epochs, extent), rho)
    return np.asarray(sigma * _at(fields, east_north, extent), float)


def shared_noise(
    rng: np.random.Generator,
    east_north: Array,
    extent: float,
    *,
    sigma: float,
    reach_m: float,
    epochs: int,
) -> Array:
    """Draw noise (N, epochs), mm, of deviation `sigma`, independent between epochs, that
    neighbours share."""
    size = int(np.ceil(extent / SHARED_GRID_M))
    white = rng.standard_normal((epochs, size, size))
    # A Gaussian window of half the reach gives noise whose correlation has fallen to 1/e after it.
    fields = ndimage.gaussian_filter(white, reach_m / 2 / SHARED_GRID_M, mode="wrap", axes=(1, 2))
    return np.asarray(sigma * _at(fields / fields.std(), east_north, extent), float)


def own_movement(rng: np.random.Generator, count: int, typical_mm: float, time: Array) -> Array:
    """Draw slow movement (N, T), mm, that each scatterer has for itself; `time` (T,) 0 to 1."""
    size = typical_mm * np.exp(rng.normal(0, 0.5, (count, 1)))
    steps = np.sqrt(np.diff(time, prepend=0.0))  # the variance of a random walk grows with time
    walk = np.cumsum(steps * rng.standard_normal((count, len(time))), axis=1)
    return np.asarray(size * (DRIFT * rng.standard_normal((count, 1)) * time + WALK * walk), float)


def _at(fields: Array, east_north: Array, extent: float) -> Array:
    """Interpolate fields (T, rows, columns) over `extent` m to places (N, 2) around its
    middle: (N, T)."""
    size = fields.shape[-1]
    place = ((east_north + extent / 2) / extent * size - 0.5).T[::-1]
    return np.stack(
        [ndimage.map_coordinates(field, place, order=1, mode="nearest") for field in fields], axis=1
    )


def unwrapping_patches(
    rng: np.random.Generator,
    east_north: Array,
    extent: float,
    *,
    count: int,
    time: Array,
    wavelength_mm: float,
) -> Array:
    """Draw `count` blobs of 40 to 250 m, half a wavelength off from some epoch on (N, T),
    mm; `time` (T,) 0 to 1."""
    off = np.zeros((len(east_north), len(time)))
    for _ in range(count):
        centre, radius = (
            rng.uniform(-0.5, 0.5, 2) * extent,
            np.exp(rng.uniform(np.log(40), np.log(250))),
        )
        offset = east_north - centre
        angle = np.arctan2(offset[:, 1], offset[:, 0])
        waves = sum(0.3 / k * np.cos(k * angle + rng.uniform(-np.pi, np.pi)) for k in (1, 2, 3))
        inside = np.hypot(*offset.T) < radius * (1 + waves)
        since = time >= rng.uniform(0.05, 0.95)
        off += inside[:, None] * since * float(rng.choice([-0.5, 0.5])) * wavelength_mm
    return off
