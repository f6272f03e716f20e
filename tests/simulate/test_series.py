from dataclasses import replace

import numpy as np
import pytest

from plumbline.simulate.acquisition import BANDS, draw_acquisitions
from plumbline.simulate.layout import draw_layout
from plumbline.simulate.motion import draw_labels, draw_motion
from plumbline.simulate.scatterers import ASTRAY, GROUND, STRUCTURE, Scatterers, draw_scatterers
from plumbline.simulate.series import background, measurement_noise, true_motion
from plumbline.simulate.trough import Tunnel, greenfield

LENGTH = 900.0


@pytest.fixture(scope="module")
def city():
    rng = np.random.default_rng(9)
    layout = draw_layout(rng, 120)
    tracks = draw_acquisitions(rng, BANDS["C"], 0, LENGTH / 365.25)
    motion = draw_motion(rng, layout, 0.8)
    # The whole observation to the day, and no season: the last epoch less the first is the final displacement.
    track = replace(tracks[0], first_day=0, revisit_days=10, kept=np.ones(91, bool))
    still = replace(motion.thermal, expansion=np.zeros(120))
    return layout, track, replace(motion, thermal=still)


def points_on(layout, building, x, y, height, kind=STRUCTURE):
    turn = layout.frames.angle[building]
    east = x * np.cos(turn) - y * np.sin(turn)
    north = x * np.sin(turn) + y * np.cos(turn)
    place = layout.frames.centre[building] + np.stack([east, north], axis=1)
    zero = np.zeros(len(x), int)
    return Scatterers(zero + building, zero + kind, zero, place, height, np.ones(len(x)))


@pytest.mark.parametrize("building", [0, 5, 17, 60])
def test_last_epoch_less_first_is_the_field_of_the_label_seen_along_the_line_of_sight(city, building):
    layout, track, motion = city
    rng = np.random.default_rng(building)
    x, y = (rng.uniform(-0.5, 0.5, (30, 2)) * layout.frames.side[building]).T
    points = points_on(layout, building, x, y, np.zeros(30))
    seen = true_motion(motion, layout, points, track, 0.0, LENGTH)
    up, along_x, along_y = motion.structure_field(building)(x, y)
    los = track.los(points.east_north)
    plan = layout.frames.rotate(points.building, los[:, :2])
    expected = los[:, 2] * up + plan[:, 0] * along_x + plan[:, 1] * along_y
    np.testing.assert_allclose(seen[:, -1] - seen[:, 0], expected, atol=1e-3)


def test_high_points_lean_with_the_tilt_and_the_trough(city):
    layout, track, motion = city
    building = int(np.flatnonzero(motion.response.reached)[0])
    place = np.zeros(1), np.zeros(1)
    low, high = (points_on(layout, building, *place, np.array([h])) for h in (0.0, 20.0))
    difference = np.diff(
        [true_motion(motion, layout, points, track, 0.0, LENGTH)[0, -1] for points in (low, high)]
    ).item()
    tilt = motion.rigid.tilt[building] + motion.response.tilt[building]
    plan = layout.frames.rotate(high.building, track.los(high.east_north)[:, :2])[0]
    assert difference == pytest.approx(-20 * float(tilt @ plan), abs=1e-6)


def test_ground_follows_the_trough_alone_and_a_stray_point_nothing(city):
    layout, track, motion = city
    building = int(np.flatnonzero(motion.response.reached)[0])
    place = np.array([3.0]), np.array([-2.0]), np.array([0.0])
    ground, stray = (points_on(layout, building, *place, kind=kind) for kind in (GROUND, ASTRAY))
    expected = greenfield(motion.tunnels, ground.east_north)[0] @ track.los(ground.east_north)[0]
    assert true_motion(motion, layout, ground, track, 0.0, LENGTH)[0, -1] == pytest.approx(expected, abs=1e-9)
    assert not true_motion(motion, layout, stray, track, 0.0, LENGTH).any()


def test_rigid_motion_and_heat_never_change_a_label(city):
    layout, _, motion = city
    moved = replace(
        motion, rigid=replace(motion.rigid, settlement=motion.rigid.settlement - 80, tilt=5 + motion.rigid.tilt)
    )
    before, after = (draw_labels(m, layout.frames.side, "labels") for m in (motion, moved))
    for b, a in zip(before, after, strict=True):
        assert a.severity_permille == pytest.approx(b.severity_permille, abs=1e-8)


def test_a_building_over_a_tunnel_is_strained_by_it(city):
    layout, _, motion = city
    quiet = replace(motion, hinges=replace(motion.hinges, drop=np.zeros(120)))
    severity = np.array([label.severity_permille for label in draw_labels(quiet, layout.frames.side, "labels")])
    assert severity[motion.response.reached].max() > 0.01
    np.testing.assert_allclose(severity[~motion.response.reached], 0, atol=1e-9)
    assert {quiet.scenario(i) for i in range(120)} == {"intact", "tunnel"}


def test_tracks_share_the_region_but_not_their_reference(city):
    layout, track, _ = city
    points = draw_scatterers(np.random.default_rng(1), layout, BANDS["C"])
    velocity = np.array([0.0, 0.0, -6.0])
    first, second = (background(np.random.default_rng(seed), velocity, points, track) for seed in (1, 2))
    steady = points.kind != ASTRAY
    years = (track.days[-1] - track.days[0]) / 365.25
    rate = (first[:, -1] - first[:, 0]) / years
    expected = track.los(points.east_north) @ velocity
    assert np.ptp(rate[steady] - expected[steady]) < 1e-9  # one reference for the whole track
    assert abs((rate - expected)[steady].mean()) < 3
    assert np.std((rate - expected)[~steady]) > 5
    assert abs(first[steady].mean() - second[steady].mean()) > 0.1


def test_noise_of_one_building_is_partly_common(city):
    layout, track, _ = city
    points = draw_scatterers(np.random.default_rng(2), layout, BANDS["C"])
    noise = measurement_noise(np.random.default_rng(3), points, track, BANDS["C"])
    centred = noise - np.median(noise, axis=1, keepdims=True)
    mates = np.flatnonzero(np.diff(points.building) == 0)
    strangers = np.flatnonzero(np.diff(points.building) != 0)
    together = np.median((centred[mates] * centred[mates + 1]).mean(axis=1))
    apart = np.median((centred[strangers] * centred[strangers + 1]).mean(axis=1))
    assert together > 4 > 2 > abs(apart)


def test_draws_stay_the_same_for_the_same_seed(city):
    layout, _, motion = city
    again = draw_motion(np.random.default_rng(9), layout, 0.8)
    twice = draw_motion(np.random.default_rng(9), layout, 0.8)
    np.testing.assert_array_equal(again.hinges.drop, twice.hinges.drop)
    assert isinstance(motion.tunnels[0], Tunnel)
