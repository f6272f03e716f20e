"""Estimate the share of damaged buildings in a city, and adjust a model's answers to it.

A model's probabilities stand for the share of damaged buildings that it was calibrated on, where half are. Of a real
city a few in a hundred are. Bayes' rule gives the probabilities at any other share (Saerens, Latinne and Decaestecker
2002, Adjusting the outputs of a classifier to new a priori probabilities, Neural Computation 14). The share itself, and
a factor by which the odds of this city are wrong, are estimated together: where a building shows little, either of them
explains the answers, and what is held of both before decides (docs/decisions/0037).

Shape legend: B buildings, C categories, K levels of strain, F factors, S shares, U different odds, P parts of a city.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, logsumexp, softmax

from plumbline.core.errors import InputError
from plumbline.core.strain import INTERVAL_SHARE, LEVEL_EDGES_PERMILLE, TOP_PERMILLE, category_of_levels
from plumbline.export.answers import Answers

Array = NDArray[np.float64]
LEAST_RATE, MOST_RATE = 1e-5, 1 - 1e-5
HALVINGS = 60
HELD_RATE, HELD_SPREAD = 0.02, 2.0
"""What is held of a city's share before it is looked at: its log odds are normal, with this median and deviation."""
DEVIATION = 0.15
"""Of the logarithm of the factor on all odds: in a city whose noise the training did not have, they are off by it."""
DEVIATIONS = (0.1, 0.15, 0.2, 0.4)
"""The same for each quarter of the buildings, from the smallest noise to the largest: what says more is less wrong."""
FEWEST = 400
"""Buildings, from which quarters are looked at."""
RATES = expit(np.linspace(-11.5, 7, 287))
WIDEST = 4.0
"""The largest factor that is tried, in its deviations."""
FEWEST_STEPS, MOST_STEPS = 32, 200
"""Of factors on either side of 1. They are as far apart as chance moves the mean of the odds."""
ALIKE = 0.05
"""Of log odds: what differs by less is taken to differ by it, for no network is calibrated better."""
DOUBT = 1.2
"""By how much the odds of a part of a city may be wrong beyond the factor."""
VAGUE = 0.15
"""Width of the interval from which the share counts as unknown."""
STANDARD_ERROR, NINETY = 0.5, 1.353
"""What the log likelihood falls by one standard error from its largest, and at the ends of a 90 % interval."""


class DamageRate(NamedTuple):
    """The share of damaged buildings: category 1 and above."""

    rate: float
    low: float
    high: float
    """90 % interval; both are the rate itself where it was given."""
    estimated: bool
    local: bool = False
    """Whether buildings have shares of their own, by cause or by place."""
    least: float | None = None
    """Lower end of the interval, if it is above `rate`, the largest estimate; `high` is then 1."""

    @property
    def is_vague(self) -> bool:
        """Whether the share was estimated, and the interval is too wide to be of use."""
        return self.estimated and self.least is None and self.high - self.low > VAGUE

    def __str__(self) -> str:
        return self._whole() + (
            "; where damage gathers, buildings have shares of their own (damage_rate)" if self.local else ""
        )

    def _whole(self) -> str:
        if not self.estimated:
            return f"{100 * self.rate:.3g} % of the buildings are taken to be damaged, as given"
        if self.least is not None:
            return (
                f"{_percent(self.least)} % or more of the judged buildings look damaged. Noise that the model has not "
                f"seen does that, too, so {_percent(self.rate)} % are taken to be damaged: no estimate is larger than "
                f"the share that the model was calibrated on. {_RANK}"
            )
        interval = f"90 % interval {_percent(self.low)} to {_percent(self.high)} %"
        if self.is_vague:
            return (
                f"{_percent(self.rate)} % of the buildings are taken to be damaged, but the points fit many shares "
                f"({interval}). {_RANK}"
            )
        return f"about {_percent(self.rate)} % of the judged buildings are damaged ({interval})"

    @property
    def advice(self) -> str:
        """How a user of the command line makes the share better known; empty where it is known well."""
        if not self.estimated or (self.least is None and not self.is_vague):
            return ""
        return f". If you know the share, give it: --damage-rate {0.02 if self.least is None else 0.9}"


_RANK = "Rank by p_damaged; do not count damaged buildings by it"


def _percent(share: float) -> str:
    """Return percent as text; 0 and 100 for the ends of what is tried."""
    if share < 1e-4 or share > 0.999:
        return f"{100 * share:.0f}"
    return f"{100 * share:.1f}" if share >= 0.001 else f"{100 * share:.1g}"


class AdjustedAnswers(NamedTuple):
    """Answers, adjusted to a share of damaged buildings."""

    category_BC: Array
    severity_B: Array
    """Permille; with the ends of its interval."""
    low_B: Array
    high_B: Array


def given_rate(text: str) -> float | None:
    """Read the rate that a user gives as text; None for `auto`.

    Raises:
        InputError: it is neither `auto` nor a number above 0 and below 1.
    """
    if text == "auto":
        return None
    try:
        rate = float(text)
    except ValueError:
        rate = np.nan
    if not 0 < rate < 1:
        raise InputError(f"--damage-rate {text}: a number above 0 and below 1 is needed, as 0.02 for 2 %, or auto.")
    return rate


def fixed_rate(rate: float) -> DamageRate:
    """Return a rate that the user has set, rather than an estimate."""
    return DamageRate(rate, rate, rate, False)


class Prior(NamedTuple):
    """What is held of a share before its buildings are looked at: as many buildings, with a share."""

    rate: float
    buildings: float


def odds_of(p_damaged: NDArray[np.floating[Any]], share: float) -> Array:
    """Return the likelihood (B,) of the points of damaged buildings over that of sound ones."""
    p = np.clip(np.asarray(p_damaged, float), 1e-9, 1 - 1e-9)
    return np.asarray(p / (1 - p) * (1 - share) / share)


def with_odds(p: NDArray[np.floating[Any]], factor: float | Array) -> Array:
    """Multiply the odds of probabilities by a factor."""
    p = np.asarray(p, float)
    return np.asarray(p * factor / (p * factor + 1 - p))


class RateEstimate(NamedTuple):
    """The share of a city, and what the odds of its buildings are wrong by."""

    rate: DamageRate
    odds_factor: Array
    """(B,) what the model's odds of damage have to be multiplied by, to agree with the share."""


def estimate_rate(
    p_damaged: NDArray[np.floating[Any]],
    noise: NDArray[np.floating[Any]],
    share: float,
    given: float | None = None,
) -> RateEstimate:
    """Estimate the share of damaged buildings of a city, with an interval, and the factor on its odds.

    Every pair of a share and a factor is weighed by what is held of both, and by the likelihood of the share. Where the
    buildings together do not show it, each quarter by noise has a factor of its own, and the least noisy one counts
    most: its odds say most, and are wrong by least. Where the answers alone allow more shares than are held before,
    they tell nothing, and the interval has all that they allow.

    Args:
        p_damaged: (B,) probabilities at the share of damaged buildings `share`; no estimate is larger than that.
        noise: (B,) strain error of each, permille.
        given: the share, if it is known: the factor alone is estimated.
    """
    odds = odds_of(p_damaged, share)
    rates_S = RATES if given is None else np.array([given])
    quarter = np.zeros(len(odds), int)
    rate, factors = _weigh([_by_factor(odds, DEVIATION, rates_S)], rates_S)
    if len(odds) >= FEWEST and (given is not None or rate.is_vague):
        quarter = np.searchsorted(np.quantile(noise, (0.25, 0.5, 0.75)), noise)
        parts = [_by_factor(odds[quarter == i], deviation, rates_S) for i, deviation in enumerate(DEVIATIONS)]
        rate, factors = _weigh(parts, rates_S)
    used = min(rate.rate, share)
    least, high = (rate.low, 1.0) if rate.low > used else (None, rate.high)
    estimated = DamageRate(used, min(rate.low, used), high, True, least=least)
    return RateEstimate(estimated if given is None else fixed_rate(given), factors[quarter])


class _PartWeights(NamedTuple):
    """What a part of a city says of F factors and S shares."""

    log_factor_F: Array
    log_weight_FS: Array
    """Of what is held of the factor, and of the likelihood."""


def _weigh(parts: Sequence[_PartWeights], rates_S: Array) -> tuple[DamageRate, Array]:
    """Return the share that all parts of a city agree on, as a median, and the factor on the odds of each part."""
    alone_S = np.sum([logsumexp(part.log_weight_FS, axis=0) for part in parts], axis=0)
    weight_S = softmax(alone_S - 0.5 * ((logit(rates_S) - logit(HELD_RATE)) / HELD_SPREAD) ** 2)
    below_S = weight_S.cumsum() - weight_S / 2
    rate, low, high = np.exp(np.interp((0.5, 0.05, 0.95), below_S, np.log(rates_S)))
    allowed = rates_S[alone_S >= alone_S.max() - NINETY]
    held = expit(logit(HELD_RATE) + np.sqrt(2 * NINETY) * HELD_SPREAD * np.array([-1, 1]))
    low = min(low, allowed[0])  # nearly 0 where the answers allow a city without damage; what is held before does not
    if np.ptp(allowed) > np.ptp(held):
        high = max(high, allowed[-1])
    factor = [np.exp(part.log_factor_F @ softmax(part.log_weight_FS, axis=0) @ weight_S) for part in parts]
    return DamageRate(float(rate), float(low), float(high), True), np.array(factor)


def _by_factor(odds: Array, deviation: float, rates_S: Array) -> _PartWeights:
    """Weigh factors on the odds of a part of a city, and shares."""
    log_odds = np.log(odds)
    spread = float(log_odds.std()) if len(odds) else 1.0
    if spread < ALIKE:
        log_odds, spread = np.concatenate([log_odds - ALIKE, log_odds + ALIKE]), ALIKE
    log_odds_U, times_U = np.unique(np.round(log_odds, 2), return_counts=True)
    number_U = times_U.astype(float) * len(odds) / max(len(log_odds), 1)
    steps = int(np.clip(WIDEST / 2 * deviation * np.sqrt(len(odds)) / spread, FEWEST_STEPS, MOST_STEPS))
    step_F = np.linspace(-WIDEST, WIDEST, 2 * steps + 1)
    log_odds_FU = log_odds_U + deviation * step_F[:, None]
    found_FS = np.array([np.log1p(rates_S[:, None] * more_U) @ number_U for more_U in np.expm1(log_odds_FU)])
    weight_FS = found_FS - _most_likely(log_odds_FU, number_U)[:, None] - 0.5 * step_F[:, None] ** 2
    return _PartWeights(deviation * step_F, weight_FS)


def _most_likely(log_odds_FU: Array, number_U: Array) -> Array:
    """Return the largest log likelihood (F,) of any share, less than 0 and more than 1 included.

    What a share is less likely than it is the empirical likelihood of the share and the factor (Owen 1988, Empirical
    likelihood ratio confidence intervals for a single functional, Biometrika 75): how well some spread of the odds of
    sound buildings fits, whose mean is 1, as that of all right odds is. It may have odds that no building has, up to
    those seen and as far the other way. The odds at its ends set how far a share may be beyond 0 and 1.
    """
    if not len(number_U):
        return np.zeros(len(log_odds_FU))
    more_FU = np.expm1(log_odds_FU)
    furthest_F = np.abs(log_odds_FU).max(axis=1)
    low_F, high_F = -1 / np.expm1(furthest_F), -1 / np.expm1(-furthest_F)
    for _ in range(HALVINGS):
        middle_F = (low_F + high_F) / 2
        rises_F = (more_FU / (1 + middle_F[:, None] * more_FU)) @ number_U > 0
        low_F, high_F = np.where(rises_F, middle_F, low_F), np.where(rises_F, high_F, middle_F)
    return np.asarray(np.log1p((low_F + high_F)[:, None] / 2 * more_FU) @ number_U)


def doubted_rate(p_damaged: NDArray[np.floating[Any]], share: float, prior: Prior) -> DamageRate:
    """Return the likeliest share of a part of a city; its interval also holds what the odds may be wrong by."""
    rate = likeliest_rate(p_damaged, share, prior).rate
    low = likeliest_rate(with_odds(p_damaged, 1 / DOUBT), share, prior).low
    high = likeliest_rate(with_odds(p_damaged, DOUBT), share, prior).high
    return DamageRate(rate, min(low, rate), max(high, rate), True)


def likeliest_rate(p_damaged: NDArray[np.floating[Any]], share: float, prior: Prior | None = None) -> DamageRate:
    """Return the likeliest share of damaged buildings, at least one standard error above 0, and at most `share`.

    Where noise is unlike that of the training, sound buildings look a little damaged, and the likeliest share of few
    or unsure answers may be 1. More damage than in training is not taken for granted: a user may say so.

    Args:
        p_damaged: (B,) probabilities at the share of damaged buildings `share`.
        prior: None: nothing is held before.
    """
    p = np.clip(np.asarray(p_damaged, float), 1e-9, 1 - 1e-9)
    if not len(p):
        return DamageRate(share if prior is None else prior.rate, 0.0, 1.0, True)
    damaged, sound = p / share, (1 - p) / (1 - share)
    held, of = (0.0, 0.0) if prior is None else (prior.rate * prior.buildings, prior.buildings)

    def likelihood(rate: float) -> float:
        before = held * np.log(rate) + (of - held) * np.log1p(-rate)
        return float(np.log(rate * damaged + (1 - rate) * sound).sum() + before)

    # A step of expectation maximisation leads towards the largest likelihood, but where answers are unsure by little
    # too slowly to arrive: halve the range that it points into.
    rate, most = LEAST_RATE, MOST_RATE
    for _ in range(HALVINGS):
        middle = (rate + most) / 2
        expected_damaged = float((middle * damaged / (middle * damaged + (1 - middle) * sound)).sum())
        expected = (expected_damaged + held) / (len(p) + of)
        rate, most = (middle, most) if expected > middle else (rate, middle)
    best = likelihood(rate)

    def end(fall: float, towards: float) -> float:
        """Return the rate on one side at which the log likelihood is `fall` below its maximum."""
        inner, outer = rate, towards
        if likelihood(outer) > best - fall:
            return outer
        for _ in range(HALVINGS):
            middle = (inner + outer) / 2
            inner, outer = (middle, outer) if likelihood(middle) > best - fall else (inner, middle)
        return inner

    least = end(STANDARD_ERROR, MOST_RATE) - rate
    low, high = end(NINETY, LEAST_RATE), end(NINETY, MOST_RATE)
    used = min(max(rate, least), share)
    return DamageRate(used, min(low, used), max(high, used), True)


def at_rate(answers: Answers, share_C: NDArray[np.floating[Any]], rate: float | Array) -> AdjustedAnswers:
    """Adjust answers to a city in which the share `rate` of buildings is damaged, or each to a share (B,) of its own.

    Each level of strain becomes more or less probable as its category does; among the damaged the categories keep
    their proportions. Severity is the median of that distribution: it is in category 1 or above exactly where damage is
    as probable as not. Its interval holds `INTERVAL_SHARE` of the distribution: from 0 where category 0 has more than a
    tenth, else with as much left out on either side.

    Args:
        share_C: of the buildings that the model was calibrated on.
    """
    share_C = np.asarray(share_C, float)
    level_BK = np.asarray(answers.level_probability, float)
    rate_B = np.broadcast_to(np.asarray(rate, float), len(level_BK))
    now_BC = np.column_stack([1 - rate_B, rate_B[:, None] * share_C[1:] / share_C[1:].sum()])
    moved_BK = level_BK * (now_BC / share_C)[:, category_of_levels()]
    moved_BK = moved_BK / np.maximum(moved_BK.sum(1, keepdims=True), 1e-300)
    category_BC = moved_BK @ (category_of_levels()[:, None] == np.arange(len(share_C)))
    may_be_sound_B = category_BC[:, 0] > 1 - INTERVAL_SHARE
    rest_B = np.where(may_be_sound_B, 1, 0.5) * (1 - INTERVAL_SHARE)
    severity_B, low_B, high_B = (_at_place(place, moved_BK) for place in (0.5, rest_B, 1 - rest_B))
    return AdjustedAnswers(category_BC, severity_B, np.where(may_be_sound_B, 0.0, low_B), high_B)


_EDGES = np.array([0.0, *LEVEL_EDGES_PERMILLE, TOP_PERMILLE])
"""Bounds of the levels of strain, permille."""


def _at_place(place_B: float | Array, level_BK: Array) -> Array:
    """Return the severities (B,), permille, at cumulative probabilities of distributions; NaN where these are."""
    rows = np.arange(len(level_BK))
    up_to_BK = np.cumsum(level_BK, axis=1)
    level_B = np.minimum((up_to_BK < np.reshape(place_B * up_to_BK[:, -1], (-1, 1))).sum(1), len(_EDGES) - 2)
    own_B = np.maximum(level_BK[rows, level_B], 1e-12)
    share_B = np.clip((place_B - (up_to_BK[rows, level_B] - level_BK[rows, level_B])) / own_B, 0, 1)
    return np.asarray(_EDGES[level_B] + share_B * np.diff(_EDGES)[level_B])
