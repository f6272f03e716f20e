"""The damage of buildings through time, from scatterers made up."""

from dataclasses import replace

import numpy as np
import pytest

from plumbline.prepare import strain_course
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.series.beginning import BEGINNINGS, TIME
from plumbline.prepare.strain_course import StrainCourses, join_courses, strain_courses
from tests.prepare.made import ASCENDING, DESCENDING, EPOCHS, ORIGIN, PARAMS, box, los_of, make_buildings, make_track

SIDE = 12.0
AT = (EPOCHS - EPOCHS[0]) / (EPOCHS[-1] - EPOCHS[0])


def city(starts, points=24, drop_mm=20.0, noise_mm=0.4, seed=0):
    """Houses whose north-east corner drops from a time on, while all of each settles and tilts: (tracks, footprints).

    Args:
        starts: of each house, share of the record.
    """
    rng = np.random.default_rng(seed)
    footprints = make_buildings([box(SIDE, SIDE, (60 * number, 0)) for number in range(len(starts))])
    tracks = []
    for name, los in zip(("up", "down"), los_of(ASCENDING, DESCENDING), strict=True):
        xy = rng.uniform(-SIDE / 2, SIDE / 2, (len(starts) * points, 2))
        owner = np.repeat(np.arange(len(starts)), points)
        course = np.clip((AT - np.asarray(starts)[owner, None]) / (1 - np.asarray(starts)[owner, None]), 0, 1)
        corner = np.clip(xy.sum(1) / SIDE, 0, None)
        up = -drop_mm * corner[:, None] * course - (4 + 0.2 * xy[:, :1]) * AT
        seen = up * los[2] + rng.normal(0, noise_mm, up.shape)
        position = xy + ORIGIN + np.column_stack([60 * owner, np.zeros(len(owner))])
        tracks.append(make_track(name, position, np.full(len(owner), 3.0), los, seen))
    return tracks, footprints


STARTS = [0.0, 0.6, 0.8]


@pytest.fixture(scope="module")
def made():
    return city(STARTS)


@pytest.fixture(scope="module")
def together(made):
    return strain_courses(prepare_buildings(*made, PARAMS), made[0], np.arange(len(STARTS)))


def test_a_corner_that_drops_late_is_told_late(together):
    assert together.building.tolist() == [0, 1, 2]
    np.testing.assert_allclose(BEGINNINGS[together.begins_MN.argmax(1)], STARTS, atol=0.06)
    np.testing.assert_allclose(together.begins_MN.sum(1), 1)
    for reached, start in zip(together.reached_M3G, STARTS, strict=True):
        true = np.clip((TIME - start) / (1 - start), 0, 1)
        assert (reached[0] - 0.05 <= true).all()
        assert (true <= reached[2] + 0.05).all()
    assert together.p_quickens_M[2] > 0.9 > together.p_quickens_M[0]


def test_the_record_is_that_of_all_tracks(together):
    assert together.period.tolist() == [EPOCHS[0].item(), EPOCHS[-1].item()]
    assert together.years == pytest.approx(59 * 12 / 365.25)


def test_a_track_without_points_on_the_buildings_belongs_to_the_record(made):
    tracks, footprints = made
    far = tracks[0].take(np.arange(3))
    later = EPOCHS[20:] + np.timedelta64(30, "D")
    away = make_track(
        "far", ORIGIN + np.full((3, 2), 5000.0), far.height, far.los, np.zeros((3, len(later))), epochs=later
    )
    found = strain_courses(prepare_buildings([*tracks, away], footprints, PARAMS), [*tracks, away], np.array([1]))
    assert found.period.tolist() == [EPOCHS[0].item(), later[-1].item()]


@pytest.mark.parametrize("number", range(len(STARTS)))
def test_a_building_is_followed_alike_without_the_others(made, together, number):
    tracks, footprints = made
    alone = prepare_buildings(tracks, footprints.iloc[[number]], PARAMS)
    by_choice = strain_courses(prepare_buildings(*made, PARAMS), tracks, np.array([number]))
    for found in (strain_courses(alone, tracks, np.array([0])), by_choice):
        np.testing.assert_allclose(found.begins_MN[0], together.begins_MN[number], atol=1e-4)
        np.testing.assert_allclose(found.growth_M3[0], together.growth_M3[number], atol=1e-4)
        np.testing.assert_allclose(found.reached_M3G[0], together.reached_M3G[number], atol=1e-4)
    assert by_choice.building.tolist() == [number]


def test_parts_of_a_city_are_joined_one_after_the_other(together):
    def part(*rows):
        at = np.array(rows, int)
        return StrainCourses(at - (at[0] if rows else 0), *(values[at] for values in together[1:-1]), together.period)

    joined = join_courses([part(0), part(), part(1, 2)], [1, 4, 2])
    assert joined.building.tolist() == [0, 5, 6]
    for found, wanted in zip(joined[1:], together[1:], strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_epochs_at_which_a_building_has_no_value_tell_nothing(made, together):
    """Not even that it moved back."""
    tracks, footprints = made
    missing = [replace(track, displacement=track.displacement.copy()) for track in tracks]
    for track in missing:
        track.displacement[:, 12:30] = np.nan
    prepared = prepare_buildings(missing, footprints, PARAMS)
    found = strain_courses(prepared, missing, np.arange(len(STARTS)))
    for whole, part in zip(together.begins_MN, found.begins_MN, strict=True):
        assert BEGINNINGS[part.argmax()] == pytest.approx(BEGINNINGS[whole.argmax()], abs=0.05)


def test_amplitudes_are_those_of_each_epoch_alone():
    rng = np.random.default_rng(0)
    y = rng.normal(0, 5, (3, 7, 20))
    y[rng.random(y.shape) < 0.2] = np.nan
    design, weight = rng.normal(size=(3, 7, 4)), rng.uniform(0.5, 2, (3, 7)) * (rng.random((3, 7)) < 0.8)
    found = strain_course._fit_amplitudes(y, design, weight)
    for b in range(3):
        value, variance = np.zeros((2, 20))
        for epoch in range(20):
            own = np.isfinite(y[b, :, epoch])
            normal = (weight[b, own, None] * design[b, own]).T @ design[b, own] + np.diag(strain_course.PRIOR)
            value[epoch] = np.linalg.solve(normal, (weight[b, own] * y[b, own, epoch]) @ design[b, own])[-1]
            variance[epoch] = np.linalg.inv(normal)[-1, -1]
        np.testing.assert_allclose(found.value[b], value)
        assert found.variance[b] == pytest.approx(np.median(variance))
        np.testing.assert_array_equal(found.is_precise[b], variance <= 4 * np.median(variance))
    assert found.is_resolved.all()


def test_a_pattern_like_settlement_tells_nothing():
    rng = np.random.default_rng(0)
    design = rng.normal(size=(1, 7, 4))
    design[..., 3] = 2 * design[..., 2]
    assert not strain_course._fit_amplitudes(rng.normal(size=(1, 7, 20)), design, np.ones((1, 7))).is_resolved.any()
