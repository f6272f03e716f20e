from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.assignment.owners import collect_scatterers, find_owners, footprint_area
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.features.build import choose_scatterers, describe_buildings, recover, redescribe
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, names
from plumbline.prepare.series.temporal_basis import unknown_courses
from tests.prepare.made import PARAMS, make_scene

COLUMNS = {"distance": DISTANCE, "slope": SLOPE, "geometry": GEOMETRY}


def same(found, wanted, close=1e-3):
    """Every column of both, within `close` of the column's spread over the buildings."""
    np.testing.assert_array_equal(found.offsets, wanted.offsets)
    for part, columns in COLUMNS.items():
        for place, name in enumerate(names(columns)):
            one, other = getattr(found, part)[:, place], getattr(wanted, part)[:, place]
            spread = max(float(other.std()), 0.01)
            np.testing.assert_allclose(one, other, rtol=close, atol=close * spread, err_msg=f"{part}: {name}")


def scene(seed, **changed):
    tracks, buildings = make_scene(seed)
    return tracks, buildings, prepare_buildings(tracks, buildings, PARAMS.model_copy(update=changed)).sequences


@given(st.integers(0, 1000))
def test_nothing_changes_where_no_scatterer_does(seed):
    sequences = scene(seed)[2]
    same(redescribe(sequences, recover(sequences)), sequences)


def test_long_sequences_that_were_thinned_stay_as_they_are():
    sequences = scene(3, max_points=8)[2]
    assert sequences.length.max() == 8
    same(redescribe(sequences, recover(sequences)), sequences)


@given(st.integers(0, 1000))
def test_scatterers_are_those_of_the_tracks(seed):
    """Along the lines of sight, positions and tracks are recovered; changes are, but for rigid motion and offsets."""
    tracks, _, sequences = scene(seed)
    found = recover(sequences)
    assert found.los[:, 2] == pytest.approx(np.where(found.los[:, 2] > 0.81, 0.826, 0.792), abs=0.01)
    for number in range(len(sequences)):
        own = found.building == number
        by_track = {round(float(up), 4) for up in found.los[own, 2]}
        assert len(set(found.track[own].tolist())) == len(by_track) == int(sequences.geometry[number][8])
    assert len(tracks) >= int(sequences.geometry[:, 8].max())


@pytest.mark.parametrize("seed", range(4))
def test_other_scatterers_give_what_prepare_gives_for_them(seed):
    """Some left out, the others moved and less sure; as if the products had been so from the beginning."""
    tracks, buildings = make_scene(seed, most=30)
    footprints = np.asarray(buildings.geometry.values)
    before, frame = collect_scatterers(tracks, footprints, find_owners(tracks, footprints, PARAMS).of)
    # Sequences do not hold histories, and what one tells depends on all scatterers: so none has any here.
    before = replace(before, **unknown_courses(len(before))._asdict())
    before = before.take(np.bincount(before.building, minlength=len(footprints))[before.building] >= 5)
    rng = np.random.default_rng(seed)
    keep = (rng.random(len(before)) < 0.7) | (np.arange(len(before)) % 5 < 2)
    moved, unsure = rng.normal(0, 3, len(before)), rng.uniform(1, 2, len(before))

    def described(scatterers):
        judged = np.unique(scatterers.building)
        names = np.array([f"b{number}" for number in range(len(footprints))])
        area = footprint_area(footprints)
        chosen = choose_scatterers(scatterers, frame, judged, 128)
        return describe_buildings(chosen, frame, area, names, judged, 2.5, "made")

    def changed(scatterers, place):
        """Row n of `scatterers` is row place[n] of `before`."""
        other = replace(
            scatterers, change=scatterers.change + moved[place], change_se=scatterers.change_se * unsure[place]
        ).take(keep[place])
        starts = np.flatnonzero(np.r_[True, np.diff(other.building) > 0])
        lowest = np.minimum.reduceat(other.height, starts)
        return replace(other, height=other.height - np.repeat(lowest, np.diff(np.r_[starts, len(other)])))

    whole = described(before)
    recovered = recover(whole)
    rank = np.unique(before.building, return_inverse=True)[1]
    place = np.empty(len(before), dtype=int)
    place[np.lexsort((*recovered.xy.T, recovered.building))] = np.lexsort((*before.xy.T, rank))
    wanted = described(changed(before, np.arange(len(before))))
    same(redescribe(whole, changed(recovered, place)), wanted, close=3e-3)
    assert len(wanted.distance) < 0.9 * len(whole.distance)


@pytest.mark.parametrize("digits", [2, 3])
def test_tracks_are_told_apart_by_rounded_lines_of_sight(digits):
    """As products write them: no longer of length one, and a little different from point to point."""
    tracks, buildings = make_scene(5)
    rng = np.random.default_rng(0)
    for track in tracks:
        track.los[:] = np.round(track.los + rng.normal(0, 1e-4, track.los.shape), digits)
    sequences = prepare_buildings(tracks, buildings, PARAMS).sequences
    found = recover(sequences)
    for number in range(len(sequences)):
        tracks_there = len(set(found.track[found.building == number].tolist()))
        assert tracks_there == sequences.geometry[number, names(GEOMETRY).index("tracks")]


def test_what_the_labels_and_names_are_is_left_alone():
    sequences = scene(1)[2]
    found = redescribe(sequences, recover(sequences))
    for field in fields(sequences):
        if field.name not in ("offsets", "distance", "slope", "geometry"):
            np.testing.assert_array_equal(getattr(found, field.name), getattr(sequences, field.name))
