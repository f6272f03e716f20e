"""Estimate when a movement began, and how fast it goes on, from a noisy series of its amplitude.

Every possible course (a line, movements that come to rest or become faster, some with one change of
speed, and onsets at any time that go on, slow down, grow, rest or are over at once) is fitted to
the series with an offset and an annual term, under several kinds of correlated noise. Each counts
by its marginal likelihood (Bayesian model averaging, Hoeting et al. 1999); beginning, growth and
course are averages over all.

Shape legend: K courses, G times at which they are tabulated, N beginnings, Q kinds of
noise, T epochs of a track, M movements.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.sources.points.epochs import DAYS_A_YEAR

TIME = np.linspace(0, 1, 201)
"""Share of the record at which courses are tabulated."""
BEGINNINGS = np.arange(0, 0.985, 0.02)
"""(N,) of onsets, as shares of the record; 0: at or before its first epoch."""
STEADY, RESTING, GROWING, TURNING, BEGINNING = 0.3, 0.15, 0.1, 0.1, 0.35
"""Prior probabilities of the families of courses."""
NOISES = (
    *((0.0, 1.0, 1.0), (0.4, 40.0, 1.0), (0.7, 40.0, 1.0), (0.6, 120.0, 1.0), (0.85, 120.0, 1.0)),
    *((0.0, 1.0, 2.0), (0.4, 40.0, 2.0)),
)
"""Kinds of noise: correlated share, days after which the correlation is 1/e, and ratio of the noise
in the last epochs to that before."""
LAST_SHARE = 0.03
"""Share of the epochs of a track whose noise may be larger, at its end (docs/decisions/0047)."""
SHORT_DAYS = 1.2 * DAYS_A_YEAR
"""Shortest record, days, with an annual term: over less it would fit the movement."""
MIN_SPEED_RATIO = 1.5
"""Smallest ratio of the speed in the last year to that before of a movement that quickens."""
QUANTILES = (0.05, 0.5, 0.95)
BLOCK = 16
"""Number of courses whose shares are summed together: about the root of their number."""


class PossibleCourses(NamedTuple):
    """The possible courses."""

    course: Float
    """(K, G) share of the whole movement that has happened at each time."""
    order: NDArray[np.intp]
    """(G, L) of the courses at each time, ascending; see `_ordered`."""
    ascending: Float
    """(G, L) the shares in that order."""
    begins: NDArray[np.intp]
    """(K,) index into `BEGINNINGS`."""
    log_prior: Float
    """(K,)"""


class Course(NamedTuple):
    """Estimate of one movement in time."""

    begins_N: Float
    """Probability of each of `BEGINNINGS`."""
    growth_3: Float
    """Share of the whole movement that happened in the last year, a year: 5, 50 and 95 %."""
    p_quickens: float
    """Probability that it went faster in the last year than before; NaN where the record is too
    short."""
    reached_3G: Float
    """Share of the whole movement at `TIME`: 5, 50 and 95 %."""


@lru_cache(maxsize=1)
def possible_courses() -> PossibleCourses:
    """Return all courses, from 0 at the first epoch to 1 at the last."""
    courses: list[tuple[Float, int, float]] = [(TIME, 0, STEADY)]
    resting = [np.expm1(-TIME / tau) / np.expm1(-1 / tau) for tau in (0.08, 0.2, 0.45, 1.0)]
    courses += [(shares, 0, RESTING / len(resting)) for shares in resting]
    growing = [TIME**power for power in (1.5, 2.0, 3.0)]
    courses += [(shares, 0, GROWING / len(growing)) for shares in growing]
    speeds = [(at, times) for at in np.arange(0.3, 0.96, 0.05) for times in (3, 8, 1 / 3, 1 / 8)]
    turns = [TIME + (times - 1) * np.maximum(TIME - at, 0) for at, times in speeds]
    courses += [(shares / shares[-1], 0, TURNING / len(turns)) for shares in turns]
    onsets = []
    for number, start in enumerate(BEGINNINGS[1:], 1):
        for share, power in (
            (1.0, 1.0),
            (0.5, 1.0),
            (1.0, 2.0),
            (0.5, 2.0),
            (1.0, 0.5),
            (0.02, 1.0),
        ):
            way = np.clip((TIME - start) / (share * (1 - start)), 0, 1)
            # In place of a power of a half, a parabola that comes to rest: `1 - (1 - w)^2`.
            onsets.append((way**power if power >= 1 else way * (2 - way), number))
    courses += [(shares, number, BEGINNING / len(onsets)) for shares, number in onsets]
    shares, begins, prior = zip(*courses, strict=True)
    reached = np.array(shares)
    return PossibleCourses(reached, *_ordered(reached.T), np.array(begins), np.log(prior))


def _ordered(values: Float) -> tuple[NDArray[np.intp], Float]:
    """Return the ascending order (G, L) of values (G, K), and the values in it; filled up to
    whole blocks with the number K and the largest value."""
    order = np.argsort(values, axis=1, kind="stable")
    fill = ((0, 0), (0, -values.shape[1] % BLOCK))
    ascending = np.pad(np.take_along_axis(values, order, axis=1), fill, mode="edge")
    return np.pad(order, fill, constant_values=values.shape[1]), ascending


def prior_beginnings() -> Float:
    """Return the prior probability (N,) of each of `BEGINNINGS`."""
    courses = possible_courses()
    return np.asarray(
        np.bincount(courses.begins, np.exp(courses.log_prior), len(BEGINNINGS)), float
    )


def prior_quickens(years: float) -> float:
    """Return the prior probability that a movement quickens; see `Course.p_quickens`."""
    _, _, quickens = _last_year(years)
    return float(np.exp(possible_courses().log_prior) @ quickens)


@lru_cache(maxsize=8)
def _last_year(years: float) -> tuple[NDArray[np.intp], Float, NDArray[np.bool_]]:
    """Return the growth of the courses in the last year, as `_ordered`, and (K,) which quicken."""
    course = possible_courses().course
    length = min(1.0, years)
    before = np.array([np.interp(1 - length / years, TIME, shares) for shares in course])
    last = (1 - before) / length
    earlier = before / max(years - length, 1e-9)
    return *_ordered(last[None]), np.asarray((last > MIN_SPEED_RATIO * earlier) & (before < 1))


class Clock:
    """The epochs of a track, prepared for series of any of its buildings."""

    def __init__(
        self, epochs: NDArray[np.datetime64], start: np.datetime64, end: np.datetime64
    ) -> None:
        """Prepare: `start` and `end` are those of the whole record, of all tracks."""
        days = (epochs - start) / np.timedelta64(1, "D")
        span = float((end - start) / np.timedelta64(1, "D"))
        sampled = np.stack(
            [np.interp(days / span, TIME, course) for course in possible_courses().course], axis=1
        )
        annual = 2 * np.pi * days / DAYS_A_YEAR
        season = [np.sin(annual), np.cos(annual)] if span >= SHORT_DAYS else []
        free = np.stack([np.ones_like(days), *season], axis=1)
        apart = np.abs(days[:, None] - days[None, :])
        last = np.arange(len(days)) >= len(days) - max(2, round(LAST_SHARE * len(days)))
        whiten, determinant = [], []
        for share, memory, times in NOISES:
            scale = np.where(last, times, 1.0)
            spread = (1 - share) * np.eye(len(days)) + share * np.exp(-apart / memory)
            lower = scale[:, None] * np.linalg.cholesky(spread)
            inverse = np.linalg.inv(lower)
            # The noise is whitened; then the whitened offset and annual term are projected out.
            q, _ = np.linalg.qr(inverse @ free)
            whiten.append(inverse - q @ (q.T @ inverse))
            determinant.append(2 * np.log(np.diag(lower)).sum())
        self.freedom = len(days) - free.shape[1]
        self.whiten = np.array(whiten)
        """(Q, T, T) makes the noise white, and takes offset and annual term off."""
        self.courses = self.whiten @ sampled
        """(Q, T, K) the courses, whitened."""
        self.power = (self.courses**2).sum(1)
        """(Q, K)"""
        self.log_determinant = np.array(determinant)
        """(Q,)"""


class CourseEvidence:
    """Evidence of series on the courses of M movements that have happened, summed over tracks."""

    def __init__(self, movements: int) -> None:
        """Begin without evidence on `movements` movements."""
        kinds, courses = len(NOISES), len(possible_courses().begins)
        self._across, self._along = np.zeros((2, movements, kinds, courses))
        self._square, self._determinant = np.zeros((2, movements, kinds))
        self._freedom = np.zeros(movements)

    def add(self, movement: NDArray[np.intp], clock: Clock, value: Float, variance: Float) -> None:
        """Add series of one track.

        Args:
            movement: (m,) of the M, each once. clock: epochs of all these series. value:
                (m, T) amplitudes.
            variance: (m,) of a value, on any scale that all series of a movement share.
        """
        y = value @ clock.whiten.transpose(0, 2, 1)
        variance_column = variance[:, None]
        self._across[movement] += (y @ clock.courses).swapaxes(0, 1) / variance_column[..., None]
        self._along[movement] += clock.power / variance_column[..., None]
        self._square[movement] += (y**2).sum(-1).T / variance_column
        self._determinant[movement] += clock.log_determinant
        self._freedom[movement] += clock.freedom

    def courses(self, years: float) -> list[Course | None]:
        """Return the estimated course of each movement.

        None where no course has the sign of the movement: it has not happened, or not in these
        series.

        Args:
            years: length of the whole record.
        """
        log_probabilities = self._likelihoods() + possible_courses().log_prior
        memory = np.empty(possible_courses().order.shape)
        return [
            _average_courses(log_probability, years, memory)
            if np.isfinite(log_probability).any()
            else None
            for log_probability in log_probabilities
        ]

    def _likelihoods(self) -> Float:
        """Return the log marginal likelihood (M, Q, K) of each course under each kind of
        noise of unknown size."""
        along, square = np.maximum(self._along, 1e-12), self._square[..., None]
        count = np.maximum(self._freedom, 1)[:, None, None]
        residual_square = np.maximum(square - self._across**2 / along, 1e-9 * square + 1e-12)
        # The size of the noise takes its likeliest value. The amplitude is integrated out: the last
        # term is half of the logarithm of its variance.
        log_likelihood = (
            -count / 2 * np.log(residual_square / count)
            - self._determinant[..., None] / 2
            - np.log(along / residual_square * count) / 2
        )
        return np.asarray(np.where(self._across > 0, log_likelihood, -np.inf))


def _average_courses(log_probability: Float, years: float, memory: Float) -> Course:
    """Average over all courses by their log probability (Q, K), up to a constant; `memory`
    (G, L) is overwritten."""
    courses = possible_courses()
    weight = np.exp(log_probability - log_probability.max())
    share = weight.sum(0) / weight.sum()
    order, ascending, quickens = _last_year(years)
    return Course(
        np.asarray(np.bincount(courses.begins, share, len(BEGINNINGS)), float),
        _quantiles(order, ascending, share, memory[:1])[:, 0],
        float(share @ quickens) if years > SHORT_DAYS / DAYS_A_YEAR else float("nan"),
        _quantiles(courses.order, courses.ascending, share, memory),
    )


def _quantiles(order: NDArray[np.intp], ascending: Float, share: Float, memory: Float) -> Float:
    """Return the `QUANTILES` (3, G) of values (G, L), each counted by its share (K,).

    Sums of blocks of shares show which block has a quantile; only there they are added one by one,
    which takes longest. To allocate `memory` (G, L) each time would take as long as the rest.

    Args:
        order, ascending: as of `_ordered`. memory: is overwritten.
    """
    np.take(np.append(share, 0), order, out=memory, mode="clip")
    blocks, row = memory.reshape(len(order), -1, BLOCK), np.arange(len(order))
    before = np.zeros((len(order), blocks.shape[1] + 1))
    np.cumsum(blocks @ np.ones(BLOCK), axis=1, out=before[:, 1:])
    quantile = np.array(QUANTILES)[:, None, None]
    block = (before[:, 1:] >= quantile).argmax(2)
    below = before[row, block][..., None] + np.cumsum(blocks[row, block], axis=2)
    place = (below[..., :-1] < quantile).sum(2)
    return np.asarray(ascending.reshape(blocks.shape)[row, block, place])
