"""The share of damaged buildings, and answers at that share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from plumbline.core.strain import LEVEL_EDGES_PERMILLE, TOP_PERMILLE, category
from plumbline.export.answers import Answers
from plumbline.serve.base_rate import (
    LEAST_RATE,
    MOST_RATE,
    PRIOR_RATE,
    DamageRate,
    at_rate,
    estimate_rate,
    fixed_rate,
    likeliest_rate,
    odds_of,
    parse_rate,
    with_odds,
)
from tests.refusals import refuses
from tests.serve.made import OF_LEVEL, SHARE, answers_of

CALIBRATED = sum(SHARE[1:])
EDGES = np.array([0.0, *LEVEL_EDGES_PERMILLE, TOP_PERMILLE])


def drawn(rng, count, rate, apart=2.0, share=CALIBRATED):
    """What a calibrated model says, at `share`, of a city of which `rate` is damaged: a normal sign of each."""
    damaged = rng.random(count) < rate
    sign = rng.normal(np.where(damaged, apart, 0.0), 1)
    odds = np.exp(apart * sign - apart**2 / 2) * share / (1 - share)
    return odds / (1 + odds)


def likelihood(p, share):
    return lambda rate: np.log(rate * p / share + (1 - rate) * (1 - p) / (1 - share)).sum()


def brute(p, share):
    """The likeliest rate of all, and how far above it the likelihood is less by half."""
    of = likelihood(p, share)
    rates = np.concatenate([np.geomspace(LEAST_RATE, 0.01, 400), np.linspace(0.01, 0.99, 981), [MOST_RATE]])
    for _ in range(3):
        best = int(np.argmax([of(rate) for rate in rates]))
        rates = np.linspace(rates[max(best - 1, 0)], rates[min(best + 1, len(rates) - 1)], 101)
    rate = rates[int(np.argmax([of(one) for one in rates]))]
    fall = of(rate) - 0.5
    above = MOST_RATE if of(MOST_RATE) > fall else brentq(lambda one: of(one) - fall, rate, MOST_RATE)
    return rate, above - rate


@pytest.mark.parametrize("apart", [0.8, 2.0, 4.0])
@pytest.mark.parametrize("rate", [0.0, 0.03, 0.3, 0.9, 1.0])
def test_the_rate_is_that_of_the_largest_likelihood(rate, apart):
    """By expectation maximisation, as by trying all; never below one standard error, nor above what was calibrated."""
    p = drawn(np.random.default_rng(0), 400, rate, apart)
    best, error = brute(p, CALIBRATED)
    found = likeliest_rate(p, CALIBRATED)
    assert found.rate == pytest.approx(min(max(best, error), CALIBRATED), rel=0.01, abs=5e-4)
    assert found.low <= found.rate <= found.high
    assert found.estimated


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_the_interval_holds_the_true_rate_in_nine_of_ten_cities(rate):
    """Wilks: where the likelihood falls by 1.353, half of 1.645 squared, from its largest."""
    rng, held = np.random.default_rng(0), []
    for _ in range(200):
        found = likeliest_rate(drawn(rng, 300, rate), CALIBRATED)
        held.append(found.low <= rate <= found.high)
    assert np.mean(held) == pytest.approx(0.9, abs=0.04)


def estimated(p, share, given=None, noise=None):
    return estimate_rate(p, np.linspace(0.1, 0.5, len(p)) if noise is None else noise, share, given)


def test_of_no_buildings_nothing_is_known():
    """The share is the one that is held before, and any may be right."""
    found, factor = estimated(np.zeros(0), 0.999)
    assert found.rate == pytest.approx(PRIOR_RATE, rel=0.02)
    assert (found.low, found.high) == (pytest.approx(0, abs=1e-3), pytest.approx(1, abs=1e-3))
    assert factor.shape == (0,)
    assert estimated(np.zeros(0), 0.8, 0.3).rate == fixed_rate(0.3)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.01, 0.99))
def test_any_answers_have_a_rate(p, share):
    found, factor = estimated(np.array(p), share)
    assert 0 < found.rate < 1
    assert 0 <= found.low <= found.rate <= found.high <= 1
    assert (factor > 0).all()


@pytest.mark.parametrize("count", [50, 3000])
@pytest.mark.parametrize("apart", [2.0, 8.0])
def test_cities_that_are_all_damaged_or_all_sound_are_told(count, apart):
    """Where the answers tell the two apart; a share of all is cut at that of the training, its interval is not."""
    rng = np.random.default_rng(1)
    damaged, sound = (estimated(drawn(rng, count, rate, apart), CALIBRATED)[0] for rate in (1.0, 0.0))
    assert damaged.rate == CALIBRATED
    assert damaged.high > 0.9
    assert sound.rate < 2 * PRIOR_RATE / count**0.25
    assert sound.low < 1e-4


@pytest.mark.parametrize("count", [50, 600])
@pytest.mark.parametrize("rate", [0.9, 1.0])
def test_where_most_look_damaged_the_lower_end_is_said_and_the_largest_estimate_is_used(count, rate):
    found, _ = estimated(drawn(np.random.default_rng(0), count, rate, share=0.48), 0.48)
    assert found.rate == found.low == 0.48
    assert rate - 0.25 < found.least < rate
    assert not found.is_vague
    assert found.high == 1
    assert str(found).startswith(f"{100 * found.least:.1f} % or more of the judged buildings look damaged. ")


@pytest.mark.parametrize("count", [50, 3000])
@pytest.mark.parametrize("rate", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("apart", [0.0, 0.3])
def test_answers_that_tell_nothing_leave_every_share_open(count, rate, apart):
    """However many they are: whatever is damaged, the share is about the one that is held before."""
    found, _ = estimated(drawn(np.random.default_rng(count), count, rate, apart, 0.5), 0.48)
    assert found.is_vague
    assert found.low < 1e-3
    assert found.high > 0.999
    assert PRIOR_RATE / 2 < found.rate < 2 * PRIOR_RATE


def by_noise(rate, seed, factors=(1.0, 1.05, 1.2, 1.6), count=6000):
    """As with Sentinel-1: answers of a city that say less the noisier a building is, and whose odds are then wrong."""
    rng = np.random.default_rng(seed)
    quarter = rng.integers(0, 4, count)
    apart = np.array([1.8, 1.2, 0.8, 0.5])[quarter]
    p = drawn(rng, count, rate, apart, 0.5)
    return with_odds(p, np.array(factors)[quarter]), quarter + rng.uniform(0, 0.1, count)


@pytest.mark.parametrize("rate", [0.03, 0.1, 0.5])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_buildings_with_little_noise_tell_the_share_where_all_together_do_not(rate, seed):
    """All together look like a city of which a fifth more is damaged."""
    p, noise = by_noise(rate, seed)
    found, factor = estimated(p, 0.5, noise=noise)
    assert likeliest_rate(p, 0.5).rate > min(rate + 0.1, 0.49)
    assert found.low < rate < found.high
    assert found.rate < max(3 * rate, 0.1)
    quarters = [np.median(factor[noise.astype(int) == number]) for number in range(4)]
    assert quarters[0] > quarters[2] > quarters[3]
    assert quarters[3] == pytest.approx(1 / 1.6, rel=0.15)


@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_where_the_share_is_given_the_factors_are_found(rate):
    p, noise = by_noise(rate, 6)
    found, factor = estimated(p, 0.5, rate, noise)
    assert found == fixed_rate(rate)
    assert np.median(factor[noise < 1]) == pytest.approx(1, rel=0.1)
    odds = odds_of(p, 0.5) * factor * rate / (1 - rate)
    assert (odds / (1 + odds)).mean() == pytest.approx(rate, rel=0.1)


def test_a_share_that_the_points_do_not_show_is_called_so():
    found, _ = estimated(drawn(np.random.default_rng(0), 7000, 0.2, apart=0.4, share=0.5), 0.5)
    assert found.is_vague
    assert found.advice.endswith("--damage-rate 0.02")
    assert "--" not in str(found)
    assert fixed_rate(0.02).advice == ""
    assert DamageRate(0.481, 0.481, 1.0, True, least=0.931).advice.endswith("--damage-rate 0.9")


@pytest.mark.parametrize("text", ["0", "1", "2%", "0,02", "nan", "", "Auto"])
def test_what_is_no_rate_is_refused(text):
    with refuses("damage_rate.not_a_share", f"--damage-rate {text}"):
        parse_rate(text)
    assert [parse_rate(text) for text in ("auto", "0.02", "1e-3")] == [None, 0.02, 0.001]


def any_answers(seed, count=40) -> Answers:
    """Answers of any distribution of levels, with severities anywhere in it."""
    rng = np.random.default_rng(seed)
    level = rng.dirichlet(np.full(16, 0.4), count)
    severity = np.sort(rng.uniform(0, 11, (count, 3)), axis=1)
    plain = answers_of(np.full((count, 4), 0.25), severity[:, 1], severity[:, 0], severity[:, 2])
    of_category = level @ (OF_LEVEL[:, None] == np.arange(5))
    return plain._replace(level_probability=level, category_probability=of_category)


def place_of(value, level):
    """(B,) the share of a distribution (B, 16) that lies below a value, which is spread evenly within a level."""
    below = np.concatenate([np.zeros((len(level), 1)), np.cumsum(level, axis=1)], axis=1)
    return np.array([np.interp(one, EDGES, row) for one, row in zip(value, below, strict=True)])


seeds, rates = st.integers(0, 500), st.floats(0.001, 0.999)


@given(seeds, rates, rates)
def test_the_more_are_damaged_the_more_severe_is_each(seed, one, other):
    low, high = (at_rate(any_answers(seed), np.array(SHARE), rate) for rate in sorted((one, other)))
    for name in ("severity_B", "low_B", "high_B"):
        assert (getattr(low, name) <= getattr(high, name) + 1e-9).all(), name
    assert (low.category_BC[:, 0] >= high.category_BC[:, 0] - 1e-12).all()


@given(seeds, rates)
def test_answers_at_a_share_follow_bayes_and_have_their_median_and_interval(seed, rate):
    answers, share = any_answers(seed), np.array(SHARE)
    found = at_rate(answers, share, rate)
    now = np.array([1 - rate, *(rate * share[1:] / CALIBRATED)]) / share
    category_BC, level_BK = answers.category_probability * now, answers.level_probability * now[OF_LEVEL]
    level_BK = level_BK / level_BK.sum(1, keepdims=True)
    np.testing.assert_allclose(found.category_BC, category_BC / category_BC.sum(1, keepdims=True), atol=1e-9)
    # The median is in category 1 or above exactly where damage is as probable as not.
    np.testing.assert_allclose(place_of(found.severity_B, level_BK), 0.5, atol=1e-6)
    sound = found.category_BC[:, 0]
    decided = np.abs(sound - 0.5) > 1e-9
    np.testing.assert_array_equal((category(found.severity_B) > 0)[decided], (sound < 0.5)[decided])
    # The interval holds nine tenths, and begins at 0 exactly where the building may be sound.
    np.testing.assert_allclose(place_of(found.high_B, level_BK) - place_of(found.low_B, level_BK), 0.9, atol=1e-6)
    np.testing.assert_array_equal(found.low_B == 0, sound > 1 - 0.9)
    # Each building may have a share of its own.
    each = at_rate(answers, share, np.where(np.arange(len(sound)) % 2, rate, 0.3))
    for part, alone in zip(each, found, strict=True):
        np.testing.assert_array_equal(part[1::2], alone[1::2])


def test_an_answer_that_is_no_number_stays_none_and_takes_no_other_with_it():
    answers = any_answers(1)
    level = answers.level_probability.copy()
    level[3] = np.nan
    found, whole = (at_rate(one, np.array(SHARE), 0.1) for one in (answers._replace(level_probability=level), answers))
    rest = np.delete(np.arange(40), 3)
    for part, same in zip(found, whole, strict=True):
        assert np.isnan(part[3]).all()
        np.testing.assert_array_equal(part[rest], same[rest])
