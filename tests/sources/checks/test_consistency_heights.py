"""Tracks whose heights count from different zeros."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.sources.checks import CELL_M, FEWEST_CELLS, height_difference_m, warn_of_datum
from plumbline.sources.points.track import Track
from tests.refusals import warned, warning_keys
from tests.sources.make import track


def on_a_hill(squares: int, seed: int, each: int = 5) -> Track:
    """Points on squares along a slope: ground and roofs of 3 to 12 m."""
    rng = np.random.default_rng(seed)
    one = track(squares * each)
    at = np.repeat(np.arange(squares), each) * CELL_M + rng.uniform(1, CELL_M - 1, squares * each)
    height = 100 + 0.3 * at + rng.choice([0.0, 3.0, 6.0, 12.0], squares * each)
    return replace(one, easting=4.5e6 + at, northing=np.full(len(at), 2.1e6), height=height)


@given(offset=st.floats(-80, 80), seed=st.integers(0, 10_000))
def test_the_difference_is_found_on_a_slope_with_roofs(offset, seed):
    one, other = on_a_hill(60, seed), on_a_hill(60, seed + 1)
    found = height_difference_m(replace(one, height=one.height + offset), other)
    assert found == pytest.approx(offset, abs=4)


def test_too_few_squares_in_common_say_nothing():
    few = on_a_hill(FEWEST_CELLS - 1, 1)
    assert height_difference_m(few, on_a_hill(60, 2)) is None
    assert height_difference_m(on_a_hill(60, 1, each=2), on_a_hill(60, 2)) is None
    elsewhere = on_a_hill(60, 1)
    assert height_difference_m(replace(elsewhere, northing=elsewhere.northing + 500), on_a_hill(60, 2)) is None


def test_who_counts_from_elsewhere_is_told_with_the_line_that_mends_it(caplog):
    """What is stated takes the place of what was: the difference that is left would raise them wrongly again."""
    one, other, third = (on_a_hill(60, seed) for seed in (1, 2, 3))
    names = ["a.csv", "x/b.csv", "c.csv"]
    high = replace(other, height=other.height + 45)
    difference = height_difference_m(high, one)
    mended = replace(high, height=high.height - difference)
    for tracks in ([one, other, third], [one, mended, third]):
        warn_of_datum(tracks, names, [None] * 3)
        assert not warning_keys(caplog)
    warn_of_datum([one, high, third], names, [None] * 3)
    places = "b.csv", f"{difference:.1f} m larger", "a.csv", f"raised_m: {-difference:.1f} for"
    assert caplog.messages == warned(caplog, "heights.other_datum", *places)
    warn_of_datum([one, high], names[:2], [3.0, 50.0])
    assert warned(caplog, "heights.other_datum", f"raised_m: {50 - difference:.1f}, and not 50,")
