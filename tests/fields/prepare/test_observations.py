"""Scatterers of several tracks as observations of their line of sight."""

import numpy as np
import pytest

from plumbline.core.errors import InputError
from plumbline.fields.prepare.grid import EAST, WEST, observe
from tests.fields.prepare.made import LOS, PLACE, make_track
from tests.refusals import refuses

TIME = np.linspace(0, 1, 40)


def town(rng, count=200, sigma=0.5):
    place = rng.uniform(0, 300, (count, 2))
    return place, 10 * TIME + sigma * rng.standard_normal((count, 40))


def test_tracks_keep_their_places_sides_and_changes():
    rng = np.random.default_rng(0)
    place, series = town(rng)
    found = observe([make_track(place, series), make_track(place + 1, -series, 1, "b")])
    assert len(found) == 400
    np.testing.assert_array_equal(found.side, np.repeat([WEST, EAST], 200))
    np.testing.assert_array_equal(found.track, np.repeat([0, 1], 200))
    np.testing.assert_allclose(found.east_north[:200], place + PLACE)
    np.testing.assert_allclose(found.los[200:], np.tile(LOS[1], (200, 1)))
    np.testing.assert_allclose(found.change, np.repeat([10, -10], 200), atol=1.5)
    part = found.take(np.array([3, 1]))
    np.testing.assert_array_equal(part.change, found.change[[3, 1]])


def test_a_point_that_moves_by_itself_counts_less():
    rng = np.random.default_rng(1)
    place, series = town(rng)
    series[7] += 40 * TIME
    plain, found = observe([make_track(place, series - 0)]), None
    series[7] -= 40 * TIME
    found = observe([make_track(place, series)])
    ratio = (plain.error * plain.apart) / (found.error * found.apart)
    assert ratio[7] > 10
    assert np.median(ratio) == pytest.approx(1, abs=0.05)


def test_points_that_are_far_from_others_or_few_are_believed():
    rng = np.random.default_rng(2)
    series = rng.uniform(-50, 50, (20, 1)) * TIME + 0.3 * rng.standard_normal((20, 40))
    apart = np.column_stack([np.arange(20) * 500.0, np.zeros(20)])
    found = observe([make_track(apart, series)])
    assert found.error.max() < 1
    assert observe([make_track(apart[:3], series[:3])]).error.max() < 1


def test_points_without_values_are_left_out():
    rng = np.random.default_rng(3)
    place, series = town(rng, 30)
    series[4], series[5, 3:] = np.nan, np.nan
    place[6, 0] = np.nan
    found = observe([make_track(place, series)])
    assert len(found) == 27
    with refuses("points.too_few_epochs"):
        observe([make_track(place, series * np.nan)])


def test_tracks_that_cannot_show_a_movement_are_refused():
    place, series = town(np.random.default_rng(4), 30)
    with pytest.raises(InputError, match="track a: 1 epoch"):
        observe([make_track(place, series[:, :1])])


def test_a_track_of_another_time_is_left_out():
    rng = np.random.default_rng(5)
    place, series = town(rng, 30)
    found = observe([make_track(place, series[:, :5], name="short"), make_track(place, series, 1, "long")])
    assert set(found.track) == {1}


def test_two_tracks_speak_of_the_same_period():
    """A track that ends earlier has its change carried on to the end of the other."""
    rng = np.random.default_rng(6)
    place, series = town(rng, 150, 0.3)
    found = observe([make_track(place, series[:, :30], name="short"), make_track(place, series, 1, "long")])
    np.testing.assert_allclose([found.change[found.track == number].mean() for number in (0, 1)], 10, atol=0.4)
