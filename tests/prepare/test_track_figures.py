import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.audit.figures import (
    EDGES,
    FIGURES,
    TrackFigures,
    noise_counts,
    quantile,
    report_tracks,
    speeds,
    step_noise,
)
from plumbline.prepare.response.decompose import TrackMeans
from tests.prepare.made import EPOCHS, make_track

LOS = (0.0, 0.0, 1.0)


def noisy(sigma, rng, count=400):
    return rng.normal(0, sigma, (count, len(EPOCHS)))


def means(rate, seen=True):
    """Of one track."""
    rate = np.asarray(rate, float)[:, None]
    weight = np.broadcast_to(1e12 * np.asarray(seen, float).reshape(-1, 1), rate.shape)
    return TrackMeans(rate, weight, np.zeros((*rate.shape, 3)), np.ones(rate.shape, np.int64))


@pytest.mark.parametrize("sigma", [0.002, 2.0, 3000.0])
def test_noise_is_found_under_trend_season_outliers_and_gaps(sigma):
    rng = np.random.default_rng(0)
    clean = step_noise(noisy(sigma, rng))
    assert np.median(clean) == pytest.approx(sigma, rel=0.03)
    series = noisy(sigma, rng) + np.linspace(0, 30 * sigma, len(EPOCHS)) + sigma * np.sin(np.arange(len(EPOCHS)) / 5)
    series += np.where(rng.random(series.shape) < 0.02, 14 * sigma, 0)
    series[rng.random(series.shape) < 0.15] = np.nan
    assert np.median(step_noise(series)) == pytest.approx(sigma, rel=0.12)


def test_a_coarse_last_digit_does_not_make_the_noise_vanish():
    rng = np.random.default_rng(1)
    coarse = np.round(noisy(0.4, rng))
    assert (np.median(np.abs(np.diff(coarse)), axis=1) == 0).mean() > 0.9
    assert np.median(step_noise(coarse)) == pytest.approx(np.hypot(0.4, 1 / np.sqrt(12)), rel=0.35)


def test_too_few_steps_tell_no_noise():
    series = np.random.default_rng(2).normal(size=(3, 8))
    series[0, 2:] = np.nan
    series[1, 1::2] = np.nan
    assert np.isfinite(step_noise(series)).tolist() == [False, False, True]
    assert len(step_noise(np.zeros((0, 8)))) == 0
    assert np.isnan(step_noise(np.zeros((2, 1)))).all()


@given(st.lists(st.floats(EDGES[1], EDGES[-2]), min_size=1, max_size=300), st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_a_quantile_is_known_to_half_a_bin(values, share):
    counts = speeds(means(values))[0]
    wanted = np.quantile(values, share, method="lower")
    assert quantile(counts, share) == pytest.approx(wanted, rel=0.04)


def test_buildings_that_a_track_does_not_see_do_not_count():
    assert speeds(means([5.0, -5.0, 0.0], [True, True, False])).sum() == 2
    assert speeds(means([0.0, 1e9])).sum() == 2  # beyond the bins


def test_what_a_velocity_may_owe_to_its_error_does_not_count():
    uncertain = means([200.0] * 10)._replace(weight=np.full((10, 1), 1 / 50.0**2))
    assert quantile(speeds(uncertain)[0], 0.5) == pytest.approx(50, rel=0.04)
    assert quantile(speeds(uncertain._replace(weight=np.full((10, 1), 1 / 80.0**2)))[0], 0.5) < 1e-3


def test_the_tiles_of_a_city_are_added_up_and_halos_are_not_counted(tmp_path):
    rng = np.random.default_rng(3)
    place = rng.uniform(0, 100, (500, 2))
    tracks = [make_track(name, place, place[:, 0], LOS, noisy(sigma, rng, 500)) for name, sigma in (("a", 1), ("b", 8))]
    west = place[:, 0] < 50
    for number, own in enumerate((west, ~west)):
        (tmp_path / str(number)).mkdir()
        rates = np.concatenate([means(np.full(50, 4.0 + number)).rate, means(np.full(50, 20.0)).rate], axis=1)
        both = TrackMeans(rates, np.full((50, 2), 1e12), np.zeros((50, 2, 3)), np.ones((50, 2), np.int64))
        figures = TrackFigures(noise_counts(tracks, [np.flatnonzero(own)] * 2), speeds(both))
        np.savez_compressed(tmp_path / str(number) / FIGURES, **figures._asdict())
    told = report_tracks(["a", "b"], sorted(tmp_path.iterdir()))
    assert told["a"]["noise_mm"] == pytest.approx(1, rel=0.08)
    assert told["b"]["noise_mm"] == pytest.approx(8, rel=0.08)
    assert told["a"]["speed_p99_mm_yr"] == pytest.approx(5, rel=0.04)
    assert told["b"]["speed_p99_mm_yr"] == pytest.approx(20, rel=0.04)


def test_what_no_point_tells_is_none(tmp_path):
    empty = make_track("a", np.zeros((0, 2)), [], LOS, np.zeros((0, len(EPOCHS))))
    figures = TrackFigures(noise_counts([empty], [np.zeros(0, np.intp)]), speeds(means(np.zeros(0))))
    np.savez_compressed(tmp_path / FIGURES, **figures._asdict())
    assert report_tracks(["a"], [tmp_path]) == {"a": {"noise_mm": None, "speed_p99_mm_yr": None}}
    assert report_tracks([], []) == {}
