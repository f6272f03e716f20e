"""When a movement began, and how fast it goes on: what is known of made-up series."""

import numpy as np
import pytest

from plumbline.prepare.series.beginning import (
    BEGINNINGS,
    TIME,
    Clock,
    Series,
    possible,
    prior_beginnings,
    prior_quickens,
    tell,
)

DAYS = np.datetime64("2020-01-01") + 12 * np.arange(122)
YEARS = float((DAYS[-1] - DAYS[0]) / np.timedelta64(1, "D")) / 365.25
AT = (DAYS - DAYS[0]) / (DAYS[-1] - DAYS[0])


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock(DAYS, DAYS[0], DAYS[-1])


def onset(start, at=AT):
    """A movement at one speed from `start` on; 1 at the end."""
    return np.clip((at - start) / (1 - start), 0, None)


def told(clock, *values):
    return tell([Series(clock, np.asarray(value, float), 1.0) for value in values], YEARS)


def most_probable(found):
    return BEGINNINGS[found.begins_N.argmax()]


def interval(found):
    below = np.cumsum(found.begins_N)
    return tuple(BEGINNINGS[np.searchsorted(below, quantile)] for quantile in (0.05, 0.95))


def test_courses_go_from_nothing_to_all_of_the_movement():
    known = possible()
    np.testing.assert_allclose(known.course[:, 0], 0, atol=1e-12)
    np.testing.assert_allclose(known.course[:, -1], 1)
    assert (np.diff(known.course, axis=1) > -1e-12).all()
    assert np.exp(known.log_prior).sum() == pytest.approx(1)
    assert prior_beginnings().sum() == pytest.approx(1)


def test_larger_noise_at_the_end_of_the_record_is_not_taken_for_a_faster_movement(clock):
    draw = np.random.default_rng(5)
    size = np.where(np.arange(len(DAYS)) >= len(DAYS) - 4, 2.0, 1.0)
    found = [told(clock, 2 * AT + size * draw.normal(size=len(DAYS))) for _ in range(200)]
    assert np.mean([one.p_quickens > 0.5 for one in found]) < 0.1  # 0.15 if all epochs were alike


def test_courses_have_their_closed_forms():
    known = possible()

    def is_there(course):
        return np.abs(known.course - course).max(1).min() < 1e-9

    assert is_there(TIME)
    assert is_there(TIME**2)
    assert is_there((1 - np.exp(-TIME / 0.2)) / (1 - np.exp(-5)))
    assert is_there((TIME + 2 * np.maximum(TIME - 0.5, 0)) / 2)
    assert is_there(onset(0.5, TIME))
    assert is_there(onset(0.5, TIME) ** 2)


def test_before_a_movement_begins_nothing_of_it_has_happened():
    known = possible()
    for course, number in zip(known.course, known.begins, strict=True):
        assert np.abs(course[BEGINNINGS[number] - 1e-9 >= TIME]).max(initial=0) < 1e-12
        assert course[BEGINNINGS[number] + 0.019 <= TIME].min() > 0


@pytest.mark.parametrize("start", [0.2, 0.5, 0.8, 0.92])
@pytest.mark.parametrize("amplitude", [-30.0, 12.0])
def test_an_onset_without_noise_is_told_at_its_time(clock, start, amplitude):
    """With an offset and an annual term, whose size does not matter."""
    season = 4 + 3 * np.cos(2 * np.pi * AT * YEARS)
    value = amplitude * onset(start) + np.sign(amplitude) * season
    found = told(clock, np.sign(amplitude) * value)
    assert most_probable(found) == pytest.approx(start, abs=1e-9)
    assert found.begins_N.sum() == pytest.approx(1)
    np.testing.assert_allclose(found.reached_3G[1], onset(start, TIME), atol=0.02)


@pytest.mark.parametrize("years", [0.5, 1.0, 2.5, 6.0])
def test_of_a_line_each_year_has_the_same_part(years):
    days = np.datetime64("2020-01-01") + np.rint(np.linspace(0, 365.25 * years, 80)).astype(int)
    own = Clock(days, days[0], days[-1])
    found = tell([Series(own, 20 * (days - days[0]) / (days[-1] - days[0]), 1.0)], years)
    np.testing.assert_allclose(found.growth_3, 1 / years, rtol=0.02)
    assert most_probable(found) == 0
    assert np.isnan(found.p_quickens) == (years < 1.2)


def test_a_line_in_white_noise_is_not_said_to_quicken(clock):
    rng = np.random.default_rng(0)
    found = [told(clock, 15 * AT + rng.normal(0, 1, len(AT))) for _ in range(20)]
    assert max(one.p_quickens for one in found) < 0.5
    assert np.mean([one.p_quickens for one in found]) < prior_quickens(YEARS)


def test_a_movement_of_the_last_year_is_said_to_quicken(clock):
    rng = np.random.default_rng(0)
    assert told(clock, 15 * onset(0.8) + rng.normal(0, 1, len(AT))).p_quickens > 0.95


def test_the_interval_holds_the_beginning_nine_times_of_ten(clock):
    rng = np.random.default_rng(3)
    held = []
    for _ in range(200):
        start = rng.uniform(0.1, 0.9)
        found = told(clock, 10 * onset(start) + rng.normal(0, 1, len(AT)))
        early, late = interval(found)
        held.append(early - 0.01 <= start <= late + 0.01)
        assert found.begins_N.sum() == pytest.approx(1)
        assert (np.diff(found.reached_3G, axis=0) >= 0).all()
        assert (np.diff(found.growth_3) >= 0).all()
    assert 0.8 <= np.mean(held) <= 0.99


def test_two_tracks_tell_more_than_one(clock):
    rng = np.random.default_rng(5)
    later = DAYS[::2] + np.timedelta64(5, "D")
    other = Clock(later[:-1], DAYS[0], DAYS[-1])
    at = (later[:-1] - DAYS[0]) / (DAYS[-1] - DAYS[0])
    one, both = [], []
    for _ in range(10):
        series = [
            Series(own, 6 * onset(0.5, when) + rng.normal(0, 1.5, len(when)), 1.0)
            for own, when in ((clock, AT), (other, at))
        ]
        for widths, given in ((one, series[:1]), (both, series)):
            early, late = interval(tell(given, YEARS))
            widths.append(late - early)
    assert np.mean(both) < np.mean(one)


def test_a_series_of_larger_variance_counts_less(clock):
    """Both are noiseless, and contradict each other."""
    early, late = 10 * onset(0.2), 10 * onset(0.7)
    for variances, start in (((1.0, 400.0), 0.2), ((400.0, 1.0), 0.7)):
        series = [Series(clock, value, variance) for value, variance in zip((early, late), variances, strict=True)]
        assert most_probable(tell(series, YEARS)) == pytest.approx(start, abs=0.05)
