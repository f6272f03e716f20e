"""Tell when a movement began, and how fast it goes on, from a noisy series of its amplitude.

Every course that is thought possible (a line, movements that come to rest or become faster, some whose speed changes
once, and onsets at any time that go on, slow down, grow, rest or are over at once) is fitted to the series with an
offset and an annual term, under several kinds of noise that hang together in time. What each explains counts by its
marginal likelihood (Bayesian model averaging, Hoeting et al. 1999); beginning, growth and course are averages over all.

Shape legend: K courses, G times at which they are tabulated, N beginnings, T epochs of a track.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.sources.points.epochs import DAYS_A_YEAR

Float = NDArray[np.floating[Any]]
TIME = np.linspace(0, 1, 201)
"""Share of the record at which courses are tabulated."""
BEGINNINGS = np.arange(0, 0.985, 0.02)
"""(N,) of onsets, as shares of the record; 0: at or before its first epoch."""
STEADY, RESTING, GROWING, TURNING, BEGINNING = 0.3, 0.15, 0.1, 0.1, 0.35
"""How probable each family is before looking."""
NOISES = (
    *((0.0, 1.0, 1.0), (0.4, 40.0, 1.0), (0.7, 40.0, 1.0), (0.6, 120.0, 1.0), (0.85, 120.0, 1.0)),
    *((0.0, 1.0, 2.0), (0.4, 40.0, 2.0)),
)
"""Kinds of noise: share that hangs together, the days after which 1/e of it is left, and how many times as large it is
in the last epochs."""
LAST = 0.03
"""Share of the epochs of a track whose noise may be larger, at its end (docs/decisions/0047)."""
SHORT_DAYS = 1.2 * DAYS_A_YEAR
"""Over less, an annual term takes the movement along, and none is fitted."""
QUICKER = 1.5
"""A movement is faster in the last year than before from so many times the speed on."""
QUANTILES = (0.05, 0.5, 0.95)


class Possible(NamedTuple):
    """The courses that are thought possible."""

    course: Float
    """(K, G) share of the whole movement that has happened at each time."""
    order: NDArray[np.intp]
    """(K, G) of the courses at each time, ascending."""
    begins: NDArray[np.intp]
    """(K,) index into `BEGINNINGS`."""
    log_prior: Float
    """(K,)"""


class Course(NamedTuple):
    """What is known of one movement in time."""

    begins_N: Float
    """Probability of each of `BEGINNINGS`."""
    growth_3: Float
    """Share of the whole movement that happened in the last year, a year: 5, 50 and 95 %."""
    p_quickens: float
    """How probable it is that it went faster in the last year than before; NaN where the record is too short."""
    reached_3G: Float
    """Share of the whole movement at `TIME`: 5, 50 and 95 %."""


@lru_cache(maxsize=1)
def possible() -> Possible:
    """Return all courses, from 0 at the first epoch to 1 at the last."""
    found: list[tuple[Float, int, float]] = [(TIME, 0, STEADY)]
    rest = [np.expm1(-TIME / tau) / np.expm1(-1 / tau) for tau in (0.08, 0.2, 0.45, 1.0)]
    found += [(course, 0, RESTING / len(rest)) for course in rest]
    grow = [TIME**power for power in (1.5, 2.0, 3.0)]
    found += [(course, 0, GROWING / len(grow)) for course in grow]
    speeds = [(at, times) for at in np.arange(0.3, 0.96, 0.05) for times in (3, 8, 1 / 3, 1 / 8)]
    turns = [TIME + (times - 1) * np.maximum(TIME - at, 0) for at, times in speeds]
    found += [(course / course[-1], 0, TURNING / len(turns)) for course in turns]
    onsets = []
    for number, start in enumerate(BEGINNINGS[1:], 1):
        for share, power in ((1.0, 1.0), (0.5, 1.0), (1.0, 2.0), (0.5, 2.0), (1.0, 0.5), (0.02, 1.0)):
            way = np.clip((TIME - start) / (share * (1 - start)), 0, 1)
            # Of a power of a half: as a parabola comes to rest, `1 - (1 - w)^2`.
            onsets.append((way**power if power >= 1 else way * (2 - way), number))
    found += [(course, number, BEGINNING / len(onsets)) for course, number in onsets]
    course, begins, prior = zip(*found, strict=True)
    reached = np.array(course)
    return Possible(reached, np.argsort(reached, axis=0, kind="stable"), np.array(begins), np.log(prior))


def prior_beginnings() -> Float:
    """Return how probable each of `BEGINNINGS` (N,) is before looking."""
    known = possible()
    return np.asarray(np.bincount(known.begins, np.exp(known.log_prior), len(BEGINNINGS)), float)


def prior_quickens(years: float) -> float:
    """Return how probable it is before looking that a movement quickens; see `Course.p_quickens`."""
    _, quickens = _last_year(years)
    return float(np.exp(possible().log_prior) @ quickens)


@lru_cache(maxsize=8)
def _last_year(years: float) -> tuple[Float, NDArray[np.bool_]]:
    """Return of each course (K,) what happens in the last year, a year, and whether it is faster there than before."""
    course = possible().course
    length = min(1.0, years)
    before = np.array([np.interp(1 - length / years, TIME, one) for one in course])
    last = (1 - before) / length
    earlier = before / max(years - length, 1e-9)
    return last, np.asarray((last > QUICKER * earlier) & (before < 1))


class _Noise(NamedTuple):
    """One kind of noise on the epochs of a track."""

    whiten: Float
    """(T, T) makes the noise white, and takes offset and annual term off."""
    courses: Float
    """(T, K) the courses, whitened."""
    log_determinant: float


class Clock:
    """The epochs of a track, prepared for series of any of its buildings."""

    def __init__(self, epochs: NDArray[np.datetime64], start: np.datetime64, end: np.datetime64) -> None:
        """Prepare: `start` and `end` are those of the whole record, of all tracks."""
        days = (epochs - start) / np.timedelta64(1, "D")
        span = float((end - start) / np.timedelta64(1, "D"))
        sampled = np.stack([np.interp(days / span, TIME, one) for one in possible().course], axis=1)
        annual = 2 * np.pi * days / DAYS_A_YEAR
        season = [np.sin(annual), np.cos(annual)] if span >= SHORT_DAYS else []
        free = np.stack([np.ones_like(days), *season], axis=1)
        self.columns = free.shape[1]
        self.noise = []
        apart = np.abs(days[:, None] - days[None, :])
        last = np.arange(len(days)) >= len(days) - max(2, round(LAST * len(days)))
        for share, memory, times in NOISES:
            scale = np.where(last, times, 1.0)
            spread = (1 - share) * np.eye(len(days)) + share * np.exp(-apart / memory)
            lower = scale[:, None] * np.linalg.cholesky(spread)
            inverse = np.linalg.inv(lower)
            q, _ = np.linalg.qr(inverse @ free)
            whiten = inverse - q @ (q.T @ inverse)
            self.noise.append(_Noise(whiten, whiten @ sampled, 2 * float(np.log(np.diag(lower)).sum())))


class Series(NamedTuple):
    """Amplitude of a movement at the epochs of one track."""

    clock: Clock
    value: Float
    """(T,)"""
    variance: float
    """Of a value, on any scale that all series of the movement share."""


def tell(series: Sequence[Series], years: float) -> Course | None:
    """Return what some tracks together tell of the course of a movement that is known to have happened.

    None where no course goes the way that the movement went: it has not happened, or not in these series.

    Args:
        series: of each track. years: length of the whole record.
    """
    known = possible()
    likely = np.array([_likelihoods(series, kind) for kind in range(len(NOISES))]) + known.log_prior
    if not np.isfinite(likely).any():
        return None
    weight = np.exp(likely - likely.max())
    share = weight.sum(0) / weight.sum()
    last, quickens = _last_year(years)
    return Course(
        np.asarray(np.bincount(known.begins, share, len(BEGINNINGS)), float),
        _quantiles(last[:, None], np.argsort(last)[:, None], share)[:, 0],
        float(share @ quickens) if years > SHORT_DAYS / DAYS_A_YEAR else float("nan"),
        _quantiles(known.course, known.order, share),
    )


def _likelihoods(series: Sequence[Series], kind: int) -> Float:
    """Return the log marginal likelihood (K,) of each course under one kind of noise of unknown size."""
    across, along = np.zeros((2, len(possible().begins)))
    square, determinant, count = 0.0, 0.0, 0
    for one in series:
        noise = one.clock.noise[kind]
        y = noise.whiten @ one.value
        across = across + noise.courses.T @ y / one.variance
        along = along + (noise.courses**2).sum(0) / one.variance
        square += float(y @ y) / one.variance
        determinant += noise.log_determinant
        count += len(y) - one.clock.columns
    along = np.maximum(along, 1e-12)
    left = np.maximum(square - across**2 / along, 1e-9 * square + 1e-12)
    found = -count / 2 * np.log(left / count) - determinant / 2 - np.log(along / left * count) / 2
    return np.asarray(np.where(across > 0, found, -np.inf))


def _quantiles(values: Float, order: NDArray[np.intp], share: Float) -> Float:
    """Return the `QUANTILES` (3, G) of values (K, G) in ascending `order` (K, G), each counted by its share (K,)."""
    below = np.cumsum(share[order], axis=0)
    rows = np.array([(below < quantile).sum(0) for quantile in QUANTILES]).clip(max=len(values) - 1)
    return np.take_along_axis(values, np.take_along_axis(order, rows, axis=0), axis=0)
