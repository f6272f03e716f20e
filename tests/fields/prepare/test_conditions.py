"""What the network is told: in units of its own, alike in a mirror, empty where nothing is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plumbline.fields.prepare.conditions import CHANNELS, MAPS, describe, stack_maps
from plumbline.fields.prepare.covariance import Covariance
from plumbline.fields.prepare.gaussian_process import ProcessEstimate, estimate
from plumbline.fields.prepare.grid import Grid, bin_observations
from tests.fields.prepare.made import PLACE, make_observations

GRID = Grid(PLACE[0], PLACE[1] + 320, 10.0, 32, 32)
KNOWN = Covariance(8.0, 4.0, 90.0, 1.0, 0.5)
MM = [MAPS.index(name) for name in MAPS if name.split("_")[0] in ("mean", "deviation", "change", "error")]


def make_maps(seed, count=150, sides=(0, 1)):
    found = make_observations(np.random.default_rng(seed), count, 320.0, sides)
    return stack_maps(estimate(found, GRID, KNOWN), bin_observations(found, GRID))


def channel(told, name):
    return told.channels[CHANNELS.index(name)]


def test_maps_hold_what_was_estimated_and_seen():
    found = make_observations(np.random.default_rng(1), 90, 320.0)
    made, binned = estimate(found, GRID, KNOWN), bin_observations(found, GRID)
    maps = dict(zip(MAPS, stack_maps(made, binned), strict=True))
    assert all(np.isfinite(values).all() for values in maps.values())
    np.testing.assert_allclose(maps["mean_east"], made.mean[1], rtol=1e-5)
    np.testing.assert_allclose(maps["deviation_up"], made.deviation[0], rtol=1e-5)
    for side, name in enumerate(("west", "east")):
        seen = binned.count[side] > 0
        np.testing.assert_allclose(maps[f"change_{name}"][seen], binned.change[side][seen], rtol=1e-5)
        np.testing.assert_array_equal(maps[f"count_{name}"], binned.count[side])
        assert not maps[f"error_{name}"][~seen].any()


@settings(max_examples=4)
@given(st.integers(0, 200), st.floats(0.05, 30), st.sampled_from([(0, 1), (0,), (1,)]))
def test_a_field_that_is_larger_is_the_same_problem(seed, factor, sides):
    maps = make_maps(seed, sides=sides)
    larger = maps.copy()
    larger[MM] *= np.float32(factor)
    one, other = describe(maps), describe(larger)
    np.testing.assert_allclose(other.channels, one.channels, atol=2e-3)
    np.testing.assert_allclose(other.scale, factor * one.scale, rtol=1e-4)
    np.testing.assert_allclose(other.mean, factor * one.mean, rtol=1e-4)


def test_a_side_that_saw_nothing_says_nothing():
    told = describe(make_maps(2, sides=(1,)))
    for name in CHANNELS:
        if name.endswith("_west") and name not in ("residual_west",):
            assert not channel(told, name).any()
    assert not channel(told, "residual_west").any()
    assert channel(told, "count_east").any()


def test_residuals_are_what_the_process_misses():
    flat = np.zeros((2, 32, 32))
    found = make_observations(np.random.default_rng(3), 150, 320.0)
    binned = bin_observations(found, GRID)
    told = describe(stack_maps(ProcessEstimate(flat, flat + 2.0), binned))
    np.testing.assert_allclose(told.scale, 2)
    seen = binned.count[0] > 0
    unit = 2 * np.hypot(0.777, 0.62)
    np.testing.assert_allclose(np.sinh(channel(told, "residual_west")[seen]) * unit, binned.change[0][seen], rtol=1e-3)
    np.testing.assert_allclose(
        np.expm1(2 * channel(told, "precision_west")[seen]), (unit / binned.error[0][seen]) ** 2, rtol=1e-3
    )
    np.testing.assert_allclose(channel(told, "count_west"), np.log1p(binned.count[0]), rtol=1e-6)


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_or_a_point_is_described_too(count):
    found = make_observations(np.random.default_rng(4), 1, 320.0).take(np.arange(count))
    told = describe(stack_maps(estimate(found, GRID, KNOWN), bin_observations(found, GRID)))
    assert np.isfinite(told.channels).all()
    assert (told.scale > 0).all()
    assert channel(told, "distance").max() == pytest.approx(np.log1p(10))
