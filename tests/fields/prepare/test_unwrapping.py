"""Steps of half a wavelength: taken out where they are, and nothing else is."""

import numpy as np
import pytest

from plumbline.fields.prepare.unwrapping import half_wavelength, remove_steps

SENTINEL = np.datetime64("2020-01-03") + 12 * np.arange(80)
HALF_MM = 27.7


def town(rng, noise=3.0):
    place = rng.uniform(0, 500, (400, 2))
    course = np.linspace(0, 1, 80)
    ground = -40 * np.exp(-((place[:, :1] - 250) ** 2) / 2 / 80**2) * course
    return place, ground + noise * rng.standard_normal((400, 80))


def taken(series, place, epochs=SENTINEL):
    return remove_steps(series.astype(np.float32), place, epochs)


@pytest.mark.parametrize("noise", [1.0, 4.0])
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("first", [5, 40, 76])
def test_a_patch_is_found_with_its_edge_and_its_epoch(noise, sign, first):
    place, series = town(np.random.default_rng(first), noise)
    patch = np.hypot(*(place - [300, 200]).T) < 80
    off = np.outer(patch, np.arange(80) >= first) * sign * HALF_MM
    left = taken(series + off, place) - series
    wrong = np.abs(left).max(axis=1) > HALF_MM / 2
    # The step is a few epochs' to know at the ends of the series, and the points at its rim are in doubt.
    assert wrong.sum() <= (0.1 if noise < 2 else 0.3) * patch.sum()


def test_patches_may_lie_over_each_other_and_end():
    place, series = town(np.random.default_rng(1))
    patch = np.hypot(*(place - [300, 200]).T) < 90
    course = (np.arange(80) >= 20).astype(float) - (np.arange(80) >= 50)
    left = taken(series + np.outer(patch, course) * HALF_MM, place) - series
    assert (np.abs(left).max(axis=1) > HALF_MM / 2).mean() < 0.02


@pytest.mark.parametrize(
    ("size", "epochs_long"),
    [(HALF_MM, 8), (1.6 * HALF_MM, 1), (0.6 * HALF_MM, 1), (60.0, 6)],
    ids=["rises in weeks", "larger", "smaller", "large and fast"],
)
def test_what_the_ground_may_do_stays(size, epochs_long):
    place, series = town(np.random.default_rng(2), 2.0)
    patch = np.hypot(*(place - [300, 200]).T) < 80
    course = np.clip((np.arange(80) - 40) / epochs_long, 0, 1)
    moved = (series - np.outer(patch, course) * size).astype(np.float32)
    assert taken(moved, place) is not None
    np.testing.assert_array_equal(taken(moved, place), moved)


def test_noise_gaps_and_what_the_air_delays_alike_are_no_steps():
    rng = np.random.default_rng(3)
    place, series = town(rng, 6.0)
    series += 12 * rng.standard_normal(80)  # everywhere alike
    series += 8 * np.outer(place[:, 0] / 500, rng.standard_normal(80))
    series[rng.random(series.shape) < 0.2] = np.nan
    series[0] = np.nan
    np.testing.assert_array_equal(taken(series, place), series.astype(np.float32))


def test_gaps_stay_gaps_where_a_step_is_taken_out():
    rng = np.random.default_rng(4)
    place, series = town(rng, 2.0)
    patch = np.hypot(*(place - [300, 200]).T) < 80
    series[rng.random(series.shape) < 0.2] = np.nan
    found = taken(series + np.outer(patch, np.arange(80) >= 40) * HALF_MM, place)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(series))
    assert (np.nanmax(np.abs(found - series), axis=1) > HALF_MM / 2).mean() < 0.02


@pytest.mark.parametrize(
    ("days", "half"),
    [(6, 27.7), (12, 27.7), (24, 27.7), (11, 15.5), (35, 28.1), (14, 121.2), (46, 118.1), (1, None), (10, None)],
)
def test_the_dates_tell_the_wavelength(days, half):
    rng = np.random.default_rng(5)
    gaps = days * rng.choice([1, 1, 1, 2, 3], 60)
    assert half_wavelength(np.datetime64("2020-01-03") + np.cumsum(gaps)) == half


def test_without_a_known_wavelength_and_with_few_epochs_nothing_is_taken_out():
    place, series = town(np.random.default_rng(6))
    patch = np.hypot(*(place - [300, 200]).T) < 80
    off = (series + np.outer(patch, np.arange(80) >= 40) * HALF_MM).astype(np.float32)
    assert remove_steps(off, place, SENTINEL[0] + 10 * np.arange(80)) is off
    assert remove_steps(off[:, :10], place, SENTINEL[:10]).shape == (400, 10)
    assert half_wavelength(SENTINEL[:1]) is None
