from dataclasses import replace

import numpy as np
import pytest

from plumbline.core.strain import MECHANISMS
from plumbline.params.simulate import Mechanisms
from plumbline.simulate.radar.acquisition import BANDS, draw_acquisitions
from plumbline.simulate.radar.noise import Law
from plumbline.simulate.radar.scatterers import ASTRAY, GROUND, STRUCTURE, SimulatedScatterers
from plumbline.simulate.radar.series import (
    COMMON_NOISE_MM,
    Reference,
    common_noise,
    courses,
    measurement_noise,
    true_motion,
)
from plumbline.simulate.structure.failures import NONE, LocalFailures
from plumbline.simulate.structure.layout import own_outlines
from plumbline.simulate.structure.motion import draw_labels, draw_motion
from plumbline.simulate.structure.tunnels import draw_tunnels, greenfield
from tests.simulate.made import small_town
from tests.strain import structure_strain

LENGTH = 900.0
SEED = 11
"""Of a city with a tunnel under some of its buildings and not under others."""


@pytest.fixture(scope="module")
def city():
    rng = np.random.default_rng(SEED)
    layout = small_town(rng, 120)
    tracks = draw_acquisitions(rng, BANDS["C"], 0, LENGTH / 365.25)
    motion = draw_motion(rng, layout, draw_tunnels(rng, layout.extent), 0.8, Mechanisms())
    # The whole observation to the day, and no season: the last epoch less the first is the final displacement.
    track = replace(tracks[0], first_day=0, revisit_days=10, kept=np.ones(91, bool))
    still = replace(motion.thermal, expansion=np.zeros(120))
    return layout, track, replace(motion, thermal=still)


def points_on(layout, building, x, y, height, *, kind=STRUCTURE):
    turn = layout.frames.angle[building]
    east = x * np.cos(turn) - y * np.sin(turn)
    north = x * np.sin(turn) + y * np.cos(turn)
    place = layout.frames.centre[building] + np.stack([east, north], axis=1)
    zero = np.zeros(len(x), int)
    return SimulatedScatterers(zero + building, zero + kind, zero, place, height, np.ones(len(x)))


def moved(motion, layout, points, track):
    course = courses(motion, np.unique(points.building), track.days, 0.0, LENGTH)
    return true_motion(motion, layout, points, track.los(points.east_north), course)


@pytest.mark.parametrize("building", [0, 5, 17, 60])
def test_last_epoch_less_first_is_the_field_of_the_label_seen_along_the_line_of_sight(city, building):
    layout, track, motion = city
    rng = np.random.default_rng(building)
    x, y = (rng.uniform(-0.5, 0.5, (30, 2)) * layout.frames.side[building]).T
    points = points_on(layout, building, x, y, np.zeros(30))
    seen = moved(motion, layout, points, track)
    up, along_x, along_y = motion.structure_field(points.building, x, y)
    los = track.los(points.east_north)
    plan = layout.frames.rotate(points.building, los[:, :2])
    expected = los[:, 2] * up + plan[:, 0] * along_x + plan[:, 1] * along_y
    np.testing.assert_allclose(seen[:, -1] - seen[:, 0], expected, atol=1e-3)


def test_high_points_lean_with_the_tilt_and_the_trough(city):
    layout, track, motion = city
    building = int(np.flatnonzero(motion.response.reached)[0])
    place = np.zeros(1), np.zeros(1)
    low, high = (points_on(layout, building, *place, np.array([h])) for h in (0.0, 20.0))
    difference = np.diff([moved(motion, layout, points, track)[0, -1] for points in (low, high)]).item()
    tilt = motion.rigid.tilt[building] + motion.response.tilt[building]
    plan = layout.frames.rotate(high.building, track.los(high.east_north)[:, :2])[0]
    assert difference == pytest.approx(-20 * float(tilt @ plan), abs=1e-6)


def test_ground_follows_the_trough_alone_and_a_stray_point_nothing(city):
    layout, track, motion = city
    building = int(np.flatnonzero(motion.response.reached)[0])
    place = np.array([3.0]), np.array([-2.0]), np.array([0.0])
    ground, stray = (points_on(layout, building, *place, kind=kind) for kind in (GROUND, ASTRAY))
    expected = greenfield(motion.tunnels, ground.east_north)[0] @ track.los(ground.east_north)[0]
    assert moved(motion, layout, ground, track)[0, -1] == pytest.approx(expected, abs=1e-9)
    assert not moved(motion, layout, stray, track).any()


def test_rigid_motion_and_heat_never_change_a_label(city):
    layout, _, motion = city
    rigid = replace(motion.rigid, settlement=motion.rigid.settlement - 80, tilt=5 + motion.rigid.tilt)
    before, after = (draw_labels(m, layout) for m in (motion, replace(motion, rigid=rigid)))
    assert before.strains.severity_permille.max() > 1
    np.testing.assert_allclose(after.strains.severity_permille, before.strains.severity_permille, atol=1e-8)
    np.testing.assert_allclose(after.strains.by_quadrant, before.strains.by_quadrant, atol=1e-8)
    np.testing.assert_array_equal(after.mechanism, before.mechanism)


def test_labels_are_those_of_the_definition(city):
    """Rectangle by rectangle, by `plumbline.core.strain`, for failures, troughs and both; other shapes:
    `test_outlines`."""
    layout, _, motion = city
    labels = draw_labels(motion, layout).strains
    for building in np.flatnonzero(np.equal(own_outlines(layout.polygon, layout.frames), None)):

        def field(x, y, building=building):
            flat = motion.structure_field(np.full(x.size, building), x.ravel(), y.ravel())
            return tuple(part.reshape(x.shape) for part in flat)

        expected = structure_strain(field, *layout.frames.side[building])
        assert labels.severity_permille[building] == pytest.approx(expected.severity_permille, abs=1e-9)
        if expected.severity_permille > 1e-6:
            assert labels.quadrant[building] in expected.accepted  # of several as bad, rounding says which
            assert np.flatnonzero(labels.accepted[building]).tolist() == list(expected.accepted)


def nothing_fails(local):
    none = np.zeros(len(local.mechanism))
    return LocalFailures(
        local.first.scaled(none), local.second.scaled(none), local.strains.scaled(none), np.full(len(none), NONE)
    )


def test_the_larger_strain_names_the_mechanism_and_two_alike_are_several(city):
    layout, _, motion = city
    labels = draw_labels(motion, layout)
    bent = draw_labels(replace(motion, local=nothing_fails(motion.local)), layout).strains.severity_permille
    failed = motion.local.strains.severity_permille
    bending, several = MECHANISMS.index("bending"), MECHANISMS.index("several")
    for building, found in enumerate(labels.mechanism):
        own = motion.local.mechanism[building]
        if bent[building] < failed[building] / 2 or bent[building] == 0:
            assert found == own
        elif failed[building] < bent[building] / 2 or own == bending:
            assert found == bending
        else:
            assert found == several
    assert {*labels.mechanism} >= {NONE, bending, several, *range(4)}


def test_a_building_over_a_tunnel_is_strained_by_it(city):
    layout, _, motion = city
    quiet = replace(motion, local=nothing_fails(motion.local))
    labels = draw_labels(quiet, layout)
    severity = labels.strains.severity_permille
    assert set(labels.mechanism[motion.response.reached]) == {MECHANISMS.index("bending")}
    assert set(labels.mechanism[~motion.response.reached]) == {NONE}
    assert severity[motion.response.reached].max() > 0.01
    np.testing.assert_allclose(severity[~motion.response.reached], 0, atol=1e-9)
    assert {quiet.scenario(i) for i in range(120)} == {"intact", "tunnel"}


def many_points(buildings, each, sigma):
    building = np.repeat(np.arange(buildings), each)
    nil = np.zeros(len(building), int)
    return SimulatedScatterers(
        building, nil, nil, np.zeros((len(building), 2)), nil.astype(float), np.full(len(nil), sigma)
    )


def noisy(own, common):
    return Reference(0.0, 0.0, 0.0, own, common)


def test_noise_has_the_statistics_that_were_asked_for():
    """Deviation and correlation of the own and of the common part, told apart by pairs of points of one building."""
    rng, reference = (np.random.default_rng(3), noisy(Law(0.3, 1.0, 50.0), Law(0.6, 0.0, 50.0)))
    track = replace(draw_acquisitions(rng, BANDS["C"], 0, 5)[0], revisit_days=6, kept=np.ones(300, bool))
    points = many_points(400, 6, sigma=3.0)
    common = common_noise(rng, 400, track, reference)
    noise = measurement_noise(
        rng, points, memory=np.zeros(400), common=common, acquisition=track, band=BANDS["C"], reference=reference
    )
    typical = common.std(axis=1)
    assert COMMON_NOISE_MM[0] * 0.8 < typical.min() < typical.max() < COMMON_NOISE_MM[1] * 1.2
    assert typical.mean() == pytest.approx(np.mean(COMMON_NOISE_MM), rel=0.05)
    # An exponent of 0 is white: 15 % of the variance, over all buildings, has no correlation.
    assert lag_one(common) == pytest.approx(0.6 * 0.85, abs=0.02)
    own = noise - common[points.building]
    # Bad epochs and jumps are few: the median of the squares hardly sees them (0.4549 of a normal variance).
    assert np.sqrt(np.median(own**2) / 0.4549) == pytest.approx(3.0, rel=0.05)
    steady = np.abs(np.diff(own, axis=1)).max(axis=1) < 20  # without a jump
    rank = np.argsort(np.argsort(own[steady], axis=1), axis=1) - 149.5  # an outlier is but the largest
    assert lag_one(rank) == pytest.approx(0.3 * 0.95 * 0.96, abs=0.03)  # of ranks; 4 % of pairs have an outlier
    first, second = (own[number::6] for number in (0, 1))
    assert abs(np.mean(np.clip(first, -9, 9) * np.clip(second, -9, 9))) < 0.3


def lag_one(series):
    return (series[:, 1:] * series[:, :-1]).mean() / (series**2).mean()


def test_a_gap_parts_what_lies_on_its_sides():
    rng, reference = (np.random.default_rng(5), noisy(Law(0.6, 1.0, 50.0), Law(0.6, 1.0, 50.0)))
    kept = np.ones(40, bool)
    kept[10:20] = False
    track = replace(draw_acquisitions(rng, BANDS["X"], 0, 5)[0], kept=kept)
    points = many_points(4000, 1, sigma=2.0)
    noise = np.clip(
        measurement_noise(
            rng,
            points,
            memory=np.zeros(4000),
            common=np.zeros((4000, 40)),
            acquisition=track,
            band=BANDS["X"],
            reference=reference,
        ),
        -6,
        6,
    )
    assert noise.shape == (4000, 30)
    assert np.corrcoef(noise[:, 8], noise[:, 9])[0, 1] > 0.45
    assert abs(np.corrcoef(noise[:, 9], noise[:, 10])[0, 1]) < 0.1
