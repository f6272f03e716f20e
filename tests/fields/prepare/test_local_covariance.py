"""The covariance by place: valid, the same in windows that overlap, and found from what it made."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from plumbline.fields.prepare.covariance import Covariance, gather, matern
from plumbline.fields.prepare.gaussian_process import estimate
from plumbline.fields.prepare.grid import Grid
from plumbline.fields.prepare.local_covariance import STEP_M, correlation, fit_places
from tests.fields.prepare.made import PLACE, make_observations

KNOWN = Covariance(2.0, 1.0, 80.0, 1.0, 0.2)
GRID = Grid(PLACE[0], PLACE[1] + 640, 10.0, 64, 64)


@given(st.integers(0, 2**32 - 1))
def test_a_covariance_of_places_with_lengths_of_their_own_is_one(seed):
    rng = np.random.default_rng(seed)
    place, length = rng.uniform(0, 300, (30, 2)), rng.uniform(10, 400, 30)
    whole = correlation(cdist(place, place), length, length)
    np.testing.assert_allclose(np.diag(whole), 1)
    assert np.linalg.eigvalsh(whole)[0] > -1e-9


def test_with_one_length_it_is_materns():
    distance, length = np.array([[0.0, 10.0, 300.0]]), np.full(3, 70.0)
    np.testing.assert_allclose(correlation(distance, length[:1], length), matern(distance, 70.0))


def halves(rng, count=900):
    """Points of a place that hardly moves in the west, and moves a lot in the east; the west's noise is small."""
    found = replace(make_observations(rng, count), error=np.full(count, 0.5), change=rng.normal(0, 0.5, count))
    east = found.east_north[:, 0] - PLACE[0] > 320
    waves = 25 * np.sin(found.east_north[:, 1] / 25)
    return replace(found, change=found.change + found.los[:, 2] * np.where(east, waves, 0))


def test_the_process_is_livelier_where_much_moves():
    found = halves(np.random.default_rng(0))
    places = fit_places(gather(found, 10.0), KNOWN, GRID, 100.0)
    amplitude = [places.at(PLACE + np.array([[x, 320.0]])).amplitude[0] for x in (100, 540)]
    assert amplitude[1] > 2 * amplitude[0]
    made, truth = estimate(found, GRID, KNOWN), 25 * np.sin(GRID.northings / 25)
    off = [np.abs(made.mean[0, 8:-8, 50] - truth[8:-8]).mean(), np.abs(made.mean[0, 8:-8, 14]).mean()]
    assert off[0] < 3
    assert off[1] < 0.6
    assert made.deviation[0, 8:-8, 50].mean() > 2 * made.deviation[0, 8:-8, 14].mean()


def test_where_neighbours_contradict_each_other_it_is_noisy():
    rng = np.random.default_rng(3)
    found = replace(make_observations(rng, 900), error=np.full(900, 0.5), change=rng.normal(0, 0.5, 900))
    wild = np.hypot(*(found.east_north - PLACE - 320).T) < 120
    found = replace(found, change=found.change + rng.normal(0, 20, 900) * wild)
    places = fit_places(gather(found, 10.0), KNOWN._replace(length_m=200.0), GRID, 100.0)
    noise = places.at(PLACE + np.array([[320.0, 320.0], [40.0, 40.0]])).noise
    assert noise[0] > 3
    assert noise[1] < 1.2


def test_windows_that_overlap_share_nodes():
    points = gather(halves(np.random.default_rng(2)), 10.0)
    one, other = (fit_places(points, KNOWN, grid, 100.0) for grid in (GRID, GRID.window(16, 32, 64, 64)))
    for places in (one, other):
        assert places.left % STEP_M == places.bottom % STEP_M == 0
    inner = PLACE + np.array([[450.0, 200.0], [500.0, 260.0]])
    for a, b in zip(one.at(inner), other.at(inner), strict=True):
        assert a == pytest.approx(b)
