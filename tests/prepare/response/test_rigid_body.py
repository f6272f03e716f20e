import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.response.rigid_body import remove_rigid, rigid_design
from tests.prepare.made import ASCENDING, DESCENDING, los_of

los_vectors = st.tuples(st.floats(-0.7, 0.7), st.floats(-0.7, 0.7), st.floats(0.4, 1))


def arrange(rng, count, tracks, side=(20.0, 12.0), los=None):
    """One building: positions (1, P, 2), heights, LOS and tracks of P scatterers."""
    xy = rng.uniform(-0.5, 0.5, (1, count, 2)) * side
    height = rng.uniform(0, 20, (1, count))
    track = rng.integers(0, tracks, (1, count))
    vectors = los_of(*(los or (ASCENDING, DESCENDING, (0.3, 0.5, 0.8))[:tracks]))
    return xy, height, vectors[track], track


def rigid_motion(xy, height, los, settlement, tilt, *, sideways, offset, track):
    """LOS change, mm, of a body that settles, moves sideways and turns by small angles (mm/m) about both axes."""
    moved = np.zeros((*xy.shape[:2], 3))
    moved[..., :2] = np.asarray(sideways) - np.asarray(tilt) * height[..., None]
    moved[..., 2] = settlement + xy @ np.asarray(tilt)
    return (moved * los).sum(-1) + np.asarray(offset)[track]


def spread_out(rng, layout, count, side):
    """Positions (1, P, 2), m, in one of the ways that scatterers sit on a building."""
    xy = rng.uniform(-0.5, 0.5, (1, count, 2)) * side
    if layout == "line":  # one facade, not along an axis
        xy = xy[..., :1] * [1.0, 0.37]
    elif layout == "cluster":  # all within a few centimetres, far from the centre
        xy = 0.45 * np.asarray(side) + 0.05 * rng.normal(size=xy.shape)
    elif layout == "twice":  # every position taken by two scatterers
        xy[:, count // 2 : 2 * (count // 2)] = xy[:, : count // 2]
    elif layout == "point":
        xy[:] = xy[:, :1]
    return xy


@given(
    seed=st.integers(0, 10_000),
    count=st.integers(1, 60),
    tracks=st.integers(1, 3),
    settlement=st.floats(-100, 100),
    tilt=st.tuples(st.floats(-5, 5), st.floats(-5, 5)),
    sideways=st.tuples(st.floats(-30, 30), st.floats(-30, 30)),
    offset=st.lists(st.floats(-80, 80), min_size=3, max_size=3),
    side=st.tuples(st.floats(3, 300), st.floats(3, 300)),
    los=st.lists(los_vectors, min_size=3, max_size=3),
    tall=st.floats(0, 120),
    layout=st.sampled_from(["anywhere", "line", "cluster", "twice", "point"]),
    error=st.floats(0.05, 20),
)
def test_any_rigid_motion_is_taken_off(
    seed, count, tracks, settlement, tilt, sideways, offset, side, los, tall, layout, error
):
    """Lines of sight are drawn in the building's frame, so any of them is any orientation of the building."""
    rng = np.random.default_rng(seed)
    xy, height = spread_out(rng, layout, count, side), rng.uniform(0, tall, (1, count))
    track = rng.integers(0, tracks, (1, count))
    vectors = los_of(*los)[track]
    change = rigid_motion(xy, height, vectors, settlement, tilt, sideways=sideways, offset=offset, track=track)
    se = error * rng.uniform(0.5, 2, change.shape)
    mask = np.ones(change.shape, bool)
    found = remove_rigid(xy, height, vectors, change=change, change_se=se, track=track, mask=mask)
    np.testing.assert_allclose(found.residual, 0, atol=1e-5)


@given(st.integers(0, 1000), st.floats(-5, 5), st.floats(-5, 5))
def test_tilts_are_found_when_two_tracks_see_a_tall_building(seed, tilt_x, tilt_y):
    xy, height, los, track = arrange(np.random.default_rng(seed), 30, 2)
    change = rigid_motion(xy, height, los, -40, (tilt_x, tilt_y), sideways=(3, -4), offset=(20, -35), track=track)
    se, mask = np.full_like(change, 1.0), np.ones(change.shape, bool)
    found = remove_rigid(xy, height, los, change=change, change_se=se, track=track, mask=mask)
    np.testing.assert_allclose(found.tilt[0], (tilt_x, tilt_y), atol=1e-3)


def broken_corner(rng, corner, drop=30.0):
    """Settlement and tilt, and a corner of about a fifth of the building that drops as one piece besides."""
    xy, height, los, track = arrange(rng, 40, 2)
    broken = (xy * corner / (20, 12) > 0.05).all(-1)
    change = rigid_motion(xy, height, los, -25, (1.5, -2), sideways=(0, 0), offset=(10, -10), track=track)
    change = change - drop * broken * los[..., 2] + rng.normal(0, 1, change.shape)
    return (xy, height, los, change, track), broken[0]


@pytest.mark.parametrize("corner", [(1, 1), (-1, 1)])
def test_one_broken_corner_is_left_standing(corner):
    kept, plain, rest, weights = [], [], [], []
    for seed in range(30):
        scene, broken = broken_corner(np.random.default_rng(seed), corner)
        xy, height, los, change, track = scene
        se, mask = np.full_like(change, 1.0), np.ones(change.shape, bool)
        found = remove_rigid(xy, height, los, change=change, change_se=se, track=track, mask=mask)
        design = rigid_design(xy, height, los, track)[0]
        squares = change[0] - design @ np.linalg.lstsq(design, change[0], rcond=None)[0]
        up, up_plain = found.residual[0] / los[0, :, 2], squares / los[0, :, 2]
        kept.append(np.median(up[broken]) - np.median(up[~broken]))
        plain.append(np.median(up_plain[broken]) - np.median(up_plain[~broken]))
        rest.append(np.median(up[~broken]))
        weights.append(np.median(found.weight[0, broken]) / np.median(found.weight[0, ~broken]))
    assert np.median(kept) < -24
    assert np.median(kept) < 1.3 * np.median(plain)  # least squares takes much of it for tilt
    assert np.abs(np.median(rest)) < 1
    assert np.median(weights) < 0.2


def test_a_tenth_of_outliers_moves_the_tilts_by_less_than_their_standard_error():
    shifts, errors = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        xy, height, los, track = arrange(rng, 40, 2)
        clean = rigid_motion(xy, height, los, -25, (1, -1), sideways=(0, 0), offset=(10, -10), track=track)
        clean += rng.normal(0, 2, (1, 40))
        spoilt = clean + 28 * (np.arange(40) < 4)  # half a wavelength
        se, mask = np.full_like(clean, 2.0), np.ones(clean.shape, bool)
        tilts = [
            remove_rigid(xy, height, los, change=change, change_se=se, track=track, mask=mask).tilt[0]
            for change in (clean, spoilt)
        ]
        design = rigid_design(xy, height, los, track)[0]
        shifts.append(tilts[1] - tilts[0])
        errors.append(2.0 * np.sqrt(np.diag(np.linalg.inv(design.T @ design))[:2]))
    assert np.mean(np.abs(shifts) < np.array(errors)) > 0.9
