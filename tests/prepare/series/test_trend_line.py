"""The line of each series on its own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.series.trend import LEAST_LINE_ERROR, LINE_CHUNK, line_changes

WHEN = np.linspace(0, 1, 80)
YEARS = 2.6
ANNUAL = 2 * np.pi * YEARS * WHEN


@given(st.floats(-100, 100), st.floats(-50, 50), st.floats(-10, 10), st.floats(-10, 10))
def test_a_line_beside_a_level_and_a_season_is_found(change, level, sine, cosine):
    series = change * WHEN + level + sine * np.sin(ANNUAL) + cosine * np.cos(ANNUAL)
    found, error = line_changes(series[None].astype(np.float32), WHEN, YEARS)
    assert found[0] == pytest.approx(change, abs=0.01)
    assert error[0] == LEAST_LINE_ERROR


def test_the_error_is_that_of_least_squares_with_white_noise():
    rng = np.random.default_rng(0)
    series = rng.normal(0, 4, (3000, 80)).astype(np.float32)
    found, error = line_changes(series, WHEN, YEARS)
    design = np.stack([WHEN, np.ones(80), np.sin(ANNUAL), np.cos(ANNUAL)], axis=1)
    expected = 4 * np.sqrt(np.linalg.inv(design.T @ design)[0, 0])
    assert np.std(found) == pytest.approx(expected, rel=0.08)
    assert np.median(error) == pytest.approx(expected, rel=0.15)


def test_a_jump_of_a_few_values_hardly_counts():
    rng = np.random.default_rng(1)
    clean = (20 * WHEN + rng.normal(0, 0.5, (200, 80))).astype(np.float32)
    spoilt = clean.copy()
    spoilt[:, [5, 40, 41]] += 28
    before, after = line_changes(clean, WHEN, YEARS)[0], line_changes(spoilt, WHEN, YEARS)[0]
    assert np.abs(after - before).max() < 1.5


def test_each_series_is_on_its_own_gaps_and_all():
    rng = np.random.default_rng(2)
    series = rng.normal(0, 3, (LINE_CHUNK + 10, 80)).astype(np.float32)
    series[rng.random(series.shape) < 0.3] = np.nan
    together = line_changes(series, WHEN, YEARS)
    for row in (0, 17, LINE_CHUNK - 1, LINE_CHUNK, LINE_CHUNK + 9):
        alone = line_changes(series[[row]], WHEN, YEARS)
        np.testing.assert_allclose([one[0] for one in alone], [one[row] for one in together], rtol=1e-9)
