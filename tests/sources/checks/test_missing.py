"""Numbers that stand for no value are found by their repeating far off their series, whatever number they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from plumbline.sources.points.missing import Missing, find_codes
from tests.refusals import warned

CODES = (-999.0, -999.9, -9999.0, -32768.0, 32767.0, 1e20, -3.4028234663852886e38, -9.96921e36, 1e10, -99999.9)


def series(rng, points=60, epochs=70, rate=5.0, decimals=1):
    """(P, T) mm: noise, seasons and subsidence, from 0 at the first epoch on."""
    years = np.linspace(0, 4.5, epochs)
    found = rng.normal(0, rate, (points, 1)) * years + rng.normal(0, 2, (points, epochs))
    found += 3 * np.sin(2 * np.pi * years)
    return np.round(found - found[:, :1], decimals)


@given(
    st.sampled_from(CODES), st.sampled_from([0.005, 0.01, 0.1, 0.5]), st.sampled_from([1.0, 0.001]), st.integers(0, 99)
)
def test_a_repeated_number_far_off_is_missing_and_nothing_else(code, share, unit, seed):
    rng = np.random.default_rng(seed)
    true = series(rng) * unit
    missing = rng.random(true.shape) < share
    missing[:3, 5] = True
    given_ = np.where(missing, code, true)
    told = Missing("a.csv", None)
    told.drop(given_)
    assert_array_equal(np.isnan(given_), missing)
    assert_array_equal(given_[~missing], true[~missing])


@given(st.integers(0, 99), st.sampled_from([0.5, 5.0, 60.0]), st.sampled_from([0, 1, 3]))
def test_what_is_measured_stays(seed, rate, decimals):
    rng = np.random.default_rng(seed)
    true = series(rng, rate=rate, decimals=decimals)
    true[0] = 0  # the point that others refer to
    true[1, 9] = 250.3  # an outlier is none that repeats
    true[2, 40:] -= 28.0  # nor is a wrong cycle
    assert find_codes(true) == []


def test_series_that_count_from_an_epoch_of_their_own_have_one_zero_each():
    rng = np.random.default_rng(0)
    true = series(rng, 300)
    first = rng.integers(0, 70, 300)
    true -= true[np.arange(300), first][:, None]
    assert find_codes(true) == []


@pytest.mark.parametrize("share", [0.02, 0.1, 0.4])
def test_zeros_that_chance_does_not_explain_are_missing_but_not_those_of_the_reference(share):
    rng = np.random.default_rng(1)
    true = series(rng, 200, decimals=3)
    holes = rng.random(true.shape) < share
    holes[:, 0] = False
    given_ = np.where(holes, 0.0, true)
    Missing("a.csv", None).drop(given_)
    assert np.isnan(given_[holes]).all()
    assert (given_[:, 0] == 0).all()
    assert np.isnan(given_[~holes]).mean() < 0.01


def test_a_number_found_in_one_block_counts_in_the_next_and_is_told_once(caplog):
    rng = np.random.default_rng(2)
    told = Missing("a.csv", None)
    blocks = [series(rng), series(rng)]
    blocks[0][3:9, 4] = -999
    blocks[1][5, 6] = -999
    for block in blocks:
        told.drop(block)
    assert np.isnan(blocks[1][5, 6])
    told.warn_of_codes()
    assert caplog.messages == warned(caplog, "points.unstated_code", "a.csv: 7 of 8400", "-999", "missing: [-999]")


def test_what_is_stated_counts_alone():
    rng = np.random.default_rng(3)
    block = series(rng)
    block[3:9, 4] = -999
    real = block.copy()
    Missing("a.csv", []).drop(real)
    assert_array_equal(real, block)
    block[0, 1] = 77.5
    Missing("a.csv", [77.5, "no data"]).drop(block)
    assert np.isnan(block[0, 1])
    assert (block[3:9, 4] == -999).all()
    heights = np.array([77.5, 3.0])
    Missing("a.csv", [77.5]).drop_in_column(heights)
    assert_array_equal(heights, [np.nan, 3.0])


@pytest.mark.parametrize(
    "written", ["-3.402823466e+38", "-3.40282e+38", "3.4028235e38", "1.70141e+38", "9.96921e+36", "1e20"]
)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_what_rasters_have_for_no_value_is_missing_with_any_number_of_digits(written, kind):
    for stated in (None, [], [-3.4028234663852886e38]):
        column = np.array([float(written), 61.5, 1e18], kind)
        Missing("a.csv", stated).drop_in_column(column)
        assert_array_equal(column, np.array([np.nan, 61.5, 1e18], kind))
