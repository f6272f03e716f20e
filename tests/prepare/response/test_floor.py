"""What points could show of a strain at best."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.response.floor import CORNERS, strain_bounds, strain_resolution
from plumbline.prepare.response.rigid_body import rigid_design
from plumbline.prepare.response.shapes import ALL, responses, strains_per_mm

SIDE = np.array([[12.0, 9.0]])
LOS = np.array([[-0.6, -0.1, 0.79], [0.6, -0.1, 0.79]])


def points(count, seed=0):
    """Places, directions, errors, the rigid design and the mask of one building's points in two tracks."""
    rng = np.random.default_rng(seed)
    xy, track = rng.uniform(-0.5, 0.5, (1, count, 2)) * SIDE[:, None], rng.integers(0, 2, (1, count))
    track[0, :2] = 0, 1
    los = LOS[track]
    return xy, los, rng.uniform(0.5, 2, (1, count)), rigid_design(xy, rng.uniform(0, 9, (1, count)), los, track)


@pytest.mark.parametrize("number", [*CORNERS, 30, 60, len(ALL) - 1])
def test_the_bound_is_the_standard_error_of_least_squares(number):
    """The last entry of the inverse of the normal matrix, by hand."""
    xy, los, error, rigid = points(30)
    design = np.concatenate([rigid[0], responses(xy, los, SIDE)[0, number][:, None]], axis=1)
    normal = (design / error[0, :, None] ** 2).T @ design
    found = strain_bounds(xy, los, error=error, rigid=rigid, mask=np.ones((1, 30), bool), side=SIDE, shapes=(number,))
    strain = strains_per_mm(SIDE)[0, number].max()
    assert found[0, 0] == pytest.approx(strain * np.sqrt(np.linalg.inv(normal)[-1, -1]), rel=1e-6)


@given(st.integers(0, 1000), st.floats(0.1, 10))
def test_it_grows_with_the_errors_and_falls_with_more_points(seed, factor):
    xy, los, error, rigid = points(20, seed)
    whole, part = np.ones((1, 20), bool), np.arange(20)[None] < 12
    found = strain_bounds(xy, los, error=error, rigid=rigid, mask=whole, side=SIDE)
    less = strain_bounds(xy, los, error=error * factor, rigid=rigid, mask=whole, side=SIDE)
    seen = np.isfinite(less)
    np.testing.assert_allclose(less[seen], factor * found[seen], rtol=1e-5)
    assert (strain_bounds(xy, los, error=error, rigid=rigid, mask=part, side=SIDE) >= found * (1 - 1e-6)).all()


def test_too_few_points_or_all_in_one_place_tell_nothing():
    xy, los, error, rigid = points(20)
    assert np.isnan(strain_resolution(xy, los, error=error, rigid=rigid, mask=np.arange(20)[None] < 4, side=SIDE)).all()
    rigid_there = rigid_design(xy * 0, np.zeros((1, 20)), los, (los[..., 0] > 0).astype(int))
    everyone = np.ones((1, 20), bool)
    assert np.isnan(strain_resolution(xy * 0, los, error=error, rigid=rigid_there, mask=everyone, side=SIDE)).all()
