"""Changes of series: exact where they are, robust where they are not, with errors that hold."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from plumbline.fields.prepare.changes import LEAST_ERROR_MM, LEAST_SERIES, estimate_changes

WHEN = np.linspace(0, 1, 60)


def change(series, years=2.0, when=WHEN):
    place = np.random.default_rng(0).uniform(0, 1000, (len(series), 2))
    return estimate_changes(np.asarray(series, np.float32), when, years, place)


@given(
    st.lists(st.tuples(st.floats(-80, 80), st.floats(-500, 500)), min_size=1, max_size=40),
    st.floats(0.2, 6),
    st.integers(0, 25),
)
def test_a_line_is_told_exactly_whatever_is_missing(lines, years, missing):
    slope, offset = np.array(lines).T
    series = slope[:, None] * WHEN + offset[:, None]
    for row, values in enumerate(series):
        values[np.random.default_rng(row).permutation(60)[:missing]] = np.nan
    found = change(series, years)
    np.testing.assert_allclose(found.change, slope, atol=0.01)
    np.testing.assert_allclose(found.error, LEAST_ERROR_MM, atol=0.02)


def test_a_season_is_no_change():
    years = 3.0
    series = 7 * WHEN + 5 * np.cos(2 * np.pi * years * WHEN + 0.7)
    np.testing.assert_allclose(change(np.tile(series, (5, 1)), years).change, 7, atol=1e-2)


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.45])
@pytest.mark.parametrize("count", [20, 400])
def test_errors_hold_on_white_noise(count, missing):
    rng = np.random.default_rng(4)
    z = []
    for _ in range(400 // count):
        slope, sigma = rng.normal(0, 20, count), rng.uniform(1, 6, count)
        series = slope[:, None] * WHEN + sigma[:, None] * rng.standard_normal((count, 60))
        series[rng.random(series.shape) < missing] = np.nan
        found = change(series)
        z.append((found.change - slope) / found.error)
    assert np.concatenate(z).std() == pytest.approx(1, abs=0.15)
    assert abs(np.concatenate(z).mean()) < 0.15


def test_single_epochs_that_are_far_off_change_little():
    rng = np.random.default_rng(5)
    series = 10 * WHEN + rng.standard_normal((300, 60))
    plain = change(series)
    rows = np.arange(300)
    for _ in range(3):
        series[rows, rng.integers(0, 60, 300)] += 28
    found = change(series)
    assert np.sqrt(((found.change - 10) ** 2).mean()) < 1.5 * np.sqrt(((plain.change - 10) ** 2).mean())


def late(rng, count):
    """Of series that all move late and briefly: what they come to, and they themselves."""
    size = rng.normal(0, 20, count)
    course = np.clip((WHEN - 0.75) / 0.15, 0, 1)
    return size, size[:, None] * course + rng.normal(0, 2, (count, 60))


def test_a_late_movement_that_many_share_is_found():
    size, series = late(np.random.default_rng(6), 200)
    many = change(series).change - size
    few = np.concatenate([change(part).change for part in np.array_split(series, 10)]) - size
    assert len(series) / 10 < LEAST_SERIES <= len(series)
    assert np.sqrt((many**2).mean()) < 1.5
    assert np.sqrt((few**2).mean()) > 4  # a line


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_few_epochs_give_no_change(count):
    when = np.linspace(0, 1, count) if count > 1 else np.zeros(1)
    found = change(np.ones((4, count)), 0.5, when)
    told = np.isfinite(found.change)
    assert not told.any() if count < 5 else told.all()
    np.testing.assert_array_equal(told, np.isfinite(found.error))


@pytest.mark.parametrize("count", [3, 60])
def test_series_that_are_nearly_empty_are_left_out_without_a_word(count):
    rng = np.random.default_rng(7)
    series = rng.standard_normal((count, 60))
    series[:, 25:] = np.nan  # of each more than half is missing
    series[0] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = change(series)
    assert np.isnan(found.change[0])
    assert np.isfinite(found.change[1:]).all()
    assert np.isfinite(found.error[1:]).all()


@given(st.floats(0.1, 20), st.floats(-300, 300))
def test_millimetres_are_a_unit_like_another(factor, level):
    _, series = late(np.random.default_rng(8), 60)
    one, other = change(series), change(factor * series + level)
    np.testing.assert_allclose(other.change, factor * one.change, rtol=1e-3, atol=2e-3 * factor + 2e-3)
    larger = factor * one.error > LEAST_ERROR_MM
    np.testing.assert_allclose(other.error[larger], factor * one.error[larger], rtol=5e-3)


def test_what_the_air_delays_alike_is_no_course_and_is_told_apart():
    rng = np.random.default_rng(9)
    place = rng.uniform(0, 1000, (250, 2))
    lower = np.linalg.cholesky(np.exp(-cdist(place, place) / 300) + 1e-9 * np.eye(250))
    off, said = [], []
    for _ in range(12):
        air = 6.0 * lower @ rng.standard_normal((250, 60))
        found = estimate_changes((air + rng.standard_normal((250, 60))).astype(np.float32), WHEN, 3.0, place)
        off.append(found.change)
        said.append(np.hypot(found.error, found.delay))
        np.testing.assert_allclose(found.delay, 6 * np.sqrt(12 / 60), rtol=0.4)
    # A line, not a course that follows the air: that would be off by three times as much.
    assert np.std(off) == pytest.approx(6.1 * np.sqrt(12 / 60), rel=0.25)
    assert np.std(np.array(off) / said) == pytest.approx(1, abs=0.25)
