"""Estimate the share of damaged buildings in a city, and adjust a model's answers to it.

A model's probabilities stand for the share of damaged buildings that it was calibrated on,
where half are. Of a real city a few in a hundred are. Bayes' rule gives the probabilities
at any other share (Saerens, Latinne and Decaestecker 2002, Adjusting the outputs of a
classifier to new a priori probabilities, Neural Computation 14). The share itself, and a
factor by which the odds of this city are wrong, are estimated together: where a building
shows little, either of them explains the answers, and the priors of both decide
(docs/decisions/0037).

Shape legend: B buildings, C categories, K levels of strain, F factors, S shares, U
different odds, P parts of a city.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, logsumexp, softmax

from plumbline.core.arrays import Array
from plumbline.core.errors import InputError
from plumbline.core.strain import (
    INTERVAL_SHARE,
    LEVEL_EDGES_PERMILLE,
    TOP_PERMILLE,
    category_of_levels,
)
from plumbline.export.answers import Answers

LEAST_RATE, MOST_RATE = 1e-5, 1 - 1e-5
HALVINGS = 60
PRIOR_RATE, PRIOR_SPREAD = 0.02, 2.0
"""Prior of a city's share: its log odds are normal, with the log odds of this median, and
this deviation."""
DEVIATION = 0.15
"""Prior standard deviation of the logarithm of the factor on all odds, in a city with noise
unlike the training's."""
DEVIATIONS = (0.1, 0.15, 0.2, 0.4)
"""Prior standard deviations of that logarithm for each quarter of the buildings, by
increasing noise: odds of less noisy points are less wrong."""
MIN_BUILDINGS = 400
"""Smallest number of buildings that are split into quarters by noise."""
RATES = expit(np.linspace(-11.5, 7, 287))
MAX_DEVIATIONS = 4.0
"""Largest logarithm of a factor that is tried, in its deviations."""
MIN_STEPS, MAX_STEPS = 32, 200
"""Number of factors that are tried on either side of 1. They are as far apart as chance
moves the mean of the odds."""
MIN_LOG_ODDS_SPREAD = 0.05
"""Smallest standard deviation of log odds: a smaller one is raised to it, because no
network is calibrated better."""
DOUBT = 1.2
"""Factor by which the odds of a part of a city may be wrong, beyond the factor of the whole
city."""
VAGUE = 0.15
"""Width of the interval from which the share counts as unknown."""
STANDARD_ERROR, NINETY = 0.5, 1.353
"""Fall of the log likelihood from its largest value at one standard error (1² / 2), and at
the ends of a 90 % interval (1.645² / 2)."""


class DamageRate(NamedTuple):
    """The share of damaged buildings: category 1 and above."""

    rate: float
    low: float
    high: float
    """90 % interval; both are the rate itself where it was given."""
    estimated: bool
    local: bool = False
    """True if buildings have shares of their own, by cause or by place."""
    least: float | None = None
    """Lower end of the interval, if it is above `rate`, the largest estimate; `high` is then 1."""

    @property
    def is_vague(self) -> bool:
        """Whether the share was estimated, and the interval is too wide to be of use."""
        return self.estimated and self.least is None and self.high - self.low > VAGUE

    def __str__(self) -> str:
        return self._describe() + (
            "; where damage gathers, buildings have shares of their own (damage_rate)"
            if self.local
            else ""
        )

    def _describe(self) -> str:
        if not self.estimated:
            return f"{100 * self.rate:.3g} % of the buildings are taken to be damaged, as given"
        rate = format_percent(self.rate)
        if self.least is not None:
            return (
                f"{format_percent(self.least)} % or more of the judged buildings look damaged. "
                f"Noise that the model has not seen does that, too, so {rate} % are taken to be "
                "damaged: no estimate is larger than the share that the model was calibrated on. "
                f"{_RANK}"
            )
        interval = f"90 % interval {format_percent(self.low)} to {format_percent(self.high)} %"
        if self.is_vague:
            return (
                f"{rate} % of the buildings are taken to be damaged, but the points fit many "
                f"shares ({interval}). {_RANK}"
            )
        return f"about {rate} % of the judged buildings are damaged ({interval})"

    @property
    def advice(self) -> str:
        """Advice on how to give the share on the command line; empty where the estimate is good."""
        if not self.estimated or (self.least is None and not self.is_vague):
            return ""
        return (
            f". If you know the share, give it: --damage-rate {0.02 if self.least is None else 0.9}"
        )


_RANK = "Rank by p_damaged; do not count damaged buildings by it"


def format_percent(share: float) -> str:
    """Return a share in percent without the sign; 0 and 100 at the ends of `RATES`."""
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


def parse_rate(text: str) -> float | None:
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
        raise InputError(
            f"--damage-rate {text}: a number above 0 and below 1 is needed, as 0.02 for 2 %, or "
            "auto.",
            key="damage_rate.not_a_share",
        )
    return rate


def fixed_rate(rate: float) -> DamageRate:
    """Return a rate that the user has set, rather than an estimate."""
    return DamageRate(rate, rate, rate, False)


class Prior(NamedTuple):
    """Prior of a share, as strong as `buildings` further buildings of which `rate` are damaged."""

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
    """Share of damaged buildings of a city, and the factors that correct the odds of its
    buildings."""

    rate: DamageRate
    odds_factor: Array
    """(B,) factors by which the model's odds of damage are multiplied, so that they agree
    with the share."""


def estimate_rate(
    p_damaged: NDArray[np.floating[Any]],
    noise: NDArray[np.floating[Any]],
    share: float,
    known_rate: float | None = None,
) -> RateEstimate:
    """Estimate the share of damaged buildings of a city, with an interval, and the factor
    on its odds.

    Every pair of a share and a factor is weighed by the priors of both, and by the
    likelihood of the share. Where the buildings together do not show the share, each
    quarter by noise has a factor of its own. The least noisy quarter counts most: its odds
    differ most from 1, and are least wrong. Where the answers alone allow a wider range of
    shares than the prior, they contain no information, and the interval has all that they
    allow.

    Args:
        p_damaged: (B,) probabilities at the share of damaged buildings `share`; no estimate
            is larger than that.
        noise: (B,) strain error of each, permille.
        known_rate: the share, if it is known: the factor alone is estimated.
    """
    odds = odds_of(p_damaged, share)
    rates_S = RATES if known_rate is None else np.array([known_rate])
    quarter_B = np.zeros(len(odds), int)
    rate, factors = _weigh([_by_factor(odds, DEVIATION, rates_S)], rates_S)
    if len(odds) >= MIN_BUILDINGS and (known_rate is not None or rate.is_vague):
        quarter_B = np.searchsorted(np.quantile(noise, (0.25, 0.5, 0.75)), noise)
        parts = [
            _by_factor(odds[quarter_B == i], deviation, rates_S)
            for i, deviation in enumerate(DEVIATIONS)
        ]
        rate, factors = _weigh(parts, rates_S)
    estimate = min(rate.rate, share)
    least, high = (rate.low, 1.0) if rate.low > estimate else (None, rate.high)
    estimated_rate = DamageRate(estimate, min(rate.low, estimate), high, True, least=least)
    return RateEstimate(
        estimated_rate if known_rate is None else fixed_rate(known_rate), factors[quarter_B]
    )


class _PartWeights(NamedTuple):
    """Weights of F factors on the odds of a part of a city, and S shares."""

    log_factor_F: Array
    log_weight_FS: Array
    """Logarithm of the factor's prior times the likelihood of factor and share."""


def _weigh(parts: Sequence[_PartWeights], rates_S: Array) -> tuple[DamageRate, Array]:
    """Return the share that all parts of a city agree on, as a median, and the factor on
    the odds of each part."""
    log_likelihood_S = np.sum([logsumexp(part.log_weight_FS, axis=0) for part in parts], axis=0)
    posterior_S = softmax(
        log_likelihood_S - 0.5 * ((logit(rates_S) - logit(PRIOR_RATE)) / PRIOR_SPREAD) ** 2
    )
    cumulative_S = posterior_S.cumsum() - posterior_S / 2
    rate, low, high = np.exp(np.interp((0.5, 0.05, 0.95), cumulative_S, np.log(rates_S)))
    likely_S = rates_S[log_likelihood_S >= log_likelihood_S.max() - NINETY]
    prior_interval = expit(
        logit(PRIOR_RATE) + np.sqrt(2 * NINETY) * PRIOR_SPREAD * np.array([-1, 1])
    )
    # The prior alone excludes a city without damage. The answers may allow one.
    low = min(low, likely_S[0])
    # Answers that allow more than the prior's own 90 % interval contain no information on
    # the share.
    if np.ptp(likely_S) > np.ptp(prior_interval):
        high = max(high, likely_S[-1])
    factors = [
        np.exp(part.log_factor_F @ softmax(part.log_weight_FS, axis=0) @ posterior_S)
        for part in parts
    ]
    return DamageRate(float(rate), float(low), float(high), True), np.array(factors)


def _by_factor(odds: Array, deviation: float, rates_S: Array) -> _PartWeights:
    """Weigh factors on the odds of a part of a city, and shares."""
    log_odds = np.log(odds)
    spread = float(log_odds.std()) if len(odds) else 1.0
    if spread < MIN_LOG_ODDS_SPREAD:
        log_odds, spread = (
            np.concatenate([log_odds - MIN_LOG_ODDS_SPREAD, log_odds + MIN_LOG_ODDS_SPREAD]),
            MIN_LOG_ODDS_SPREAD,
        )
    log_odds_U, times_U = np.unique(np.round(log_odds, 2), return_counts=True)
    number_U = times_U.astype(float) * len(odds) / max(len(log_odds), 1)
    steps = int(
        np.clip(MAX_DEVIATIONS / 2 * deviation * np.sqrt(len(odds)) / spread, MIN_STEPS, MAX_STEPS)
    )
    step_F = np.linspace(-MAX_DEVIATIONS, MAX_DEVIATIONS, 2 * steps + 1)
    log_odds_FU = log_odds_U + deviation * step_F[:, None]
    # Log likelihood of a building: log(1 - rate + rate * odds). Single precision is enough for
    # logarithms, and several times as fast.
    log_likelihood_FS = np.array(
        [
            np.log(1 + rates_S[:, None] * excess_odds_U, dtype=np.float32) @ number_U
            for excess_odds_U in np.expm1(log_odds_FU)
        ]
    )
    weight_FS = (
        log_likelihood_FS
        - _most_likely(log_odds_FU, number_U)[:, None]
        - 0.5 * step_F[:, None] ** 2
    )
    return _PartWeights(deviation * step_F, weight_FS)


def _most_likely(log_odds_FU: Array, number_U: Array) -> Array:
    """Return the largest log likelihood (F,) of any share, less than 0 and more than 1 included.

    The log likelihood of a share and a factor less this is their empirical log likelihood
    (Owen 1988, Empirical likelihood ratio confidence intervals for a single functional,
    Biometrika 75). It measures how well some distribution of the odds of sound buildings
    fits that has mean 1, as correct odds have. The distribution may have odds that no
    building has, up to the largest and as far below 1. The odds at its ends limit how far a
    share may be beyond 0 and 1.
    """
    if not len(number_U):
        return np.zeros(len(log_odds_FU))
    excess_odds_FU = np.expm1(log_odds_FU)
    max_log_odds_F = np.abs(log_odds_FU).max(axis=1)
    low_F, high_F = -1 / np.expm1(max_log_odds_F), -1 / np.expm1(-max_log_odds_F)
    for _ in range(HALVINGS):
        middle_F = (low_F + high_F) / 2
        is_rising_F = (excess_odds_FU / (1 + middle_F[:, None] * excess_odds_FU)) @ number_U > 0
        low_F, high_F = (
            np.where(is_rising_F, middle_F, low_F),
            np.where(is_rising_F, high_F, middle_F),
        )
    return np.asarray(np.log1p((low_F + high_F)[:, None] / 2 * excess_odds_FU) @ number_U)


def doubted_rate(p_damaged: NDArray[np.floating[Any]], share: float, prior: Prior) -> DamageRate:
    """Return the likeliest share of a part of a city; its interval also holds what the odds
    may be wrong by."""
    rate = likeliest_rate(p_damaged, share, prior).rate
    low = likeliest_rate(with_odds(p_damaged, 1 / DOUBT), share, prior).low
    high = likeliest_rate(with_odds(p_damaged, DOUBT), share, prior).high
    return DamageRate(rate, min(low, rate), max(high, rate), True)


def likeliest_rate(
    p_damaged: NDArray[np.floating[Any]], share: float, prior: Prior | None = None
) -> DamageRate:
    """Return the likeliest share of damaged buildings, at least one standard error above 0,
    and at most `share`.

    Where noise is unlike that of the training, sound buildings look a little damaged, and
    the likeliest share of few or unsure answers may be 1. More damage than in training is
    not taken for granted: a user may say so.

    Args:
        p_damaged: (B,) probabilities at the share of damaged buildings `share`.
        prior: of the share; None: without one.
    """
    p = np.clip(np.asarray(p_damaged, float), 1e-9, 1 - 1e-9)
    if not len(p):
        return DamageRate(share if prior is None else prior.rate, 0.0, 1.0, True)
    damaged, sound = p / share, (1 - p) / (1 - share)
    n_prior_damaged, n_prior = (
        (0.0, 0.0) if prior is None else (prior.rate * prior.buildings, prior.buildings)
    )

    def likelihood(rate: float) -> float:
        log_prior = n_prior_damaged * np.log(rate) + (n_prior - n_prior_damaged) * np.log1p(-rate)
        return float(np.log(rate * damaged + (1 - rate) * sound).sum() + log_prior)

    # A step of expectation maximisation leads towards the largest likelihood, but where
    # answers are unsure by little too slowly to arrive: halve the range that it points into.
    rate, highest_rate = LEAST_RATE, MOST_RATE
    for _ in range(HALVINGS):
        middle = (rate + highest_rate) / 2
        expected_damaged = float(
            (middle * damaged / (middle * damaged + (1 - middle) * sound)).sum()
        )
        expected = (expected_damaged + n_prior_damaged) / (len(p) + n_prior)
        rate, highest_rate = (middle, highest_rate) if expected > middle else (rate, middle)
    max_likelihood = likelihood(rate)

    def find_bound(fall: float, limit: float) -> float:
        """Return the rate on one side at which the log likelihood is `fall` below its maximum."""
        inner, outer = rate, limit
        if likelihood(outer) > max_likelihood - fall:
            return outer
        for _ in range(HALVINGS):
            middle = (inner + outer) / 2
            inner, outer = (
                (middle, outer) if likelihood(middle) > max_likelihood - fall else (inner, middle)
            )
        return inner

    standard_error = find_bound(STANDARD_ERROR, MOST_RATE) - rate
    low, high = find_bound(NINETY, LEAST_RATE), find_bound(NINETY, MOST_RATE)
    estimate = min(max(rate, standard_error), share)
    return DamageRate(estimate, min(low, estimate), max(high, estimate), True)


def at_rate(
    answers: Answers, share_C: NDArray[np.floating[Any]], rate: float | Array
) -> AdjustedAnswers:
    """Adjust answers to a city in which the share `rate` of buildings is damaged, or each
    to a share (B,) of its own.

    Each level of strain becomes more or less probable as its category does; among the
    damaged the categories keep their proportions. Severity is the median of that
    distribution: it is in category 1 or above exactly where damage is as probable as not.
    Its interval holds `INTERVAL_SHARE` of the distribution: from 0 where category 0 has
    more than a tenth, else with as much left out on either side.

    Args:
        share_C: of the buildings that the model was calibrated on.
    """
    share_C = np.asarray(share_C, float)
    level_BK = np.asarray(answers.level_probability, float)
    rate_B = np.broadcast_to(np.asarray(rate, float), len(level_BK))
    share_BC = np.column_stack([1 - rate_B, rate_B[:, None] * share_C[1:] / share_C[1:].sum()])
    adjusted_BK = level_BK * (share_BC / share_C)[:, category_of_levels()]
    adjusted_BK = adjusted_BK / np.maximum(adjusted_BK.sum(1, keepdims=True), 1e-300)
    category_BC = adjusted_BK @ (category_of_levels()[:, None] == np.arange(len(share_C)))
    may_be_sound_B = category_BC[:, 0] > 1 - INTERVAL_SHARE
    tail_B = np.where(may_be_sound_B, 1, 0.5) * (1 - INTERVAL_SHARE)
    severity_B, low_B, high_B = (
        _severity_at(quantile, adjusted_BK) for quantile in (0.5, tail_B, 1 - tail_B)
    )
    return AdjustedAnswers(category_BC, severity_B, np.where(may_be_sound_B, 0.0, low_B), high_B)


_EDGES = np.array([0.0, *LEVEL_EDGES_PERMILLE, TOP_PERMILLE])
"""Bounds of the levels of strain, permille."""


def _severity_at(quantile_B: float | Array, level_BK: Array) -> Array:
    """Return the severities (B,), permille, at cumulative probabilities of distributions;
    NaN where these are."""
    rows = np.arange(len(level_BK))
    cumulative_BK = np.cumsum(level_BK, axis=1)
    level_B = np.minimum(
        (cumulative_BK < np.reshape(quantile_B * cumulative_BK[:, -1], (-1, 1))).sum(1),
        len(_EDGES) - 2,
    )
    mass_B = np.maximum(level_BK[rows, level_B], 1e-12)
    fraction_B = np.clip(
        (quantile_B - (cumulative_BK[rows, level_B] - level_BK[rows, level_B])) / mass_B, 0, 1
    )
    return np.asarray(_EDGES[level_B] + fraction_B * np.diff(_EDGES)[level_B])
