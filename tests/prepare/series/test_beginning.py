"""When a movement began, and how fast it goes on: what is known of made-up series."""

import numpy as np
import pytest

from plumbline.prepare.series.beginning import (
    BEGINNINGS,
    NOISES,
    TIME,
    Clock,
    CourseEvidence,
    possible_courses,
    prior_beginnings,
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


def tell(series, years):
    """What series (clock, values, variance) of one movement tell of it."""
    found = CourseEvidence(1)
    for clock, value, variance in series:
        found.add(np.zeros(1, int), clock, np.asarray(value, float)[None], np.array([variance]))
    return found.courses(years)[0]


def told(clock, value):
    return tell([(clock, value, 1.0)], YEARS)


def most_probable(found):
    return BEGINNINGS[found.begins_N.argmax()]


def interval(found):
    below = np.cumsum(found.begins_N)
    return tuple(BEGINNINGS[np.searchsorted(below, quantile)] for quantile in (0.05, 0.95))


def test_courses_go_from_nothing_to_all_of_the_movement():
    known = possible_courses()
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


def test_before_a_movement_begins_nothing_of_it_has_happened():
    known = possible_courses()
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
    found = tell([(own, 20 * (days - days[0]) / (days[-1] - days[0]), 1.0)], years)
    np.testing.assert_allclose(found.growth_3, 1 / years, rtol=0.02)
    assert most_probable(found) == 0
    assert np.isnan(found.p_quickens) == (years < 1.2)


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


def test_what_never_went_the_way_of_its_course_is_no_movement(clock):
    noise = np.random.default_rng(0).normal(0, 1e-3, (2, len(AT)))
    found = CourseEvidence(3)
    found.add(np.array([0, 2]), clock, AT * [[-1], [1]] + noise, np.ones(2))
    assert [course is None for course in found.courses(YEARS)] == [True, True, False]


def plain_likelihood(series, course, kind):
    """By generalised least squares on all epochs of all tracks together, as the formula says it."""
    share, memory, times = NOISES[kind]
    square, along, determinant, count = np.zeros(2), 0.0, 0.0, 0
    for days, value, variance in series:
        day = (days - DAYS[0]) / np.timedelta64(1, "D")
        last = np.arange(len(day)) >= len(day) - max(2, round(0.03 * len(day)))
        scale = np.where(last, times, 1.0)
        covariance = (1 - share) * np.eye(len(day)) + share * np.exp(-np.abs(day[:, None] - day) / memory)
        covariance *= np.outer(scale, scale)
        annual = 2 * np.pi * day / 365.25
        free = np.column_stack([np.ones(len(day)), np.sin(annual), np.cos(annual)])
        sampled = np.interp(day / day_of_last(), TIME, course)
        inverse = np.linalg.inv(covariance)
        left = inverse - inverse @ free @ np.linalg.inv(free.T @ inverse @ free) @ free.T @ inverse
        square += np.array([value @ left @ value, sampled @ left @ value]) / variance
        along += sampled @ left @ sampled / variance
        determinant += np.linalg.slogdet(covariance)[1]
        count += len(day) - free.shape[1]
    if square[1] <= 0:
        return -np.inf
    least = square[0] - square[1] ** 2 / along
    return -count / 2 * np.log(least / count) - determinant / 2 - np.log(along / least * count) / 2


def day_of_last():
    return (DAYS[-1] - DAYS[0]) / np.timedelta64(1, "D")


def test_likelihoods_of_many_movements_are_those_of_the_formula(clock):
    rng = np.random.default_rng(0)
    other = DAYS[3:-5:2]
    values = [5 * onset(start) + rng.normal(0, 2, len(AT)) for start in (0.1, 0.6)]
    seconds = values[1][3:-5:2] + rng.normal(0, 1, len(other))
    found = CourseEvidence(2)
    found.add(np.array([1, 0]), clock, np.array(values[::-1]), np.array([3.0, 2.0]))
    found.add(np.array([1]), Clock(other, DAYS[0], DAYS[-1]), seconds[None], np.array([0.5]))
    series = [[(DAYS, values[0], 2.0)], [(DAYS, values[1], 3.0), (other, seconds, 0.5)]]
    some = np.arange(0, len(possible_courses().begins), 29)
    wanted = [
        [[plain_likelihood(own, possible_courses().course[k], kind) for k in some] for kind in range(len(NOISES))]
        for own in series
    ]
    np.testing.assert_allclose(found._likelihoods()[..., some], wanted, rtol=1e-6)
