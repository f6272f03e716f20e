"""Rows of sequences know the points they came from."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plumbline.core.compass import frames
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.features.definition import DISTANCE, SLOPE, names
from plumbline.serve.explain.run import product_points
from tests.prepare.made import PARAMS, make_scene


def found_in(tracks, buildings, **changed):
    """The sequences, the footprints they are of, and the points of their rows."""
    prepared = prepare_buildings(tracks, buildings, PARAMS.model_copy(update=changed))
    points = product_points(prepared, np.arange(len(prepared.sequences)), tracks)
    return prepared.sequences, prepared.footprint, points


@settings(max_examples=5)
@given(st.integers(0, 1000), st.sampled_from([8, 128]))
def test_rows_are_points_of_their_building_each_once(seed, most):
    tracks, buildings = make_scene(seed)
    sequences, footprint, points = found_in(tracks, buildings, max_points=most)
    rows = {(track.name, name): number for track in tracks for number, name in enumerate(track.point_id)}
    named = [(track, name) for track, name in zip(points.track, points.point_id, strict=True)]
    assert len(set(named)) == len(named) == sequences.offsets[-1]
    by_name = {track.name: track for track in tracks}
    place = np.array([(by_name[t].easting[rows[t, n]], by_name[t].northing[rows[t, n]]) for t, n in named])
    assert np.column_stack([points.easting, points.northing]).tolist() == place.tolist()
    assert points.height.tolist() == [by_name[t].height[rows[t, n]] for t, n in named]
    own = np.repeat(footprint, sequences.length)
    in_frame = frames(buildings.geometry.to_numpy()).to_building(own, place)
    np.testing.assert_allclose(sequences.distance[:, :2], in_frame, atol=1e-4)
    los_up = np.array([by_name[t].los[rows[t, n], 2] for t, n in named])
    np.testing.assert_allclose(sequences.slope[:, names(SLOPE).index("los_up")], los_up, atol=1e-6)


def test_points_above_each_other_and_twins_are_told_apart():
    tracks, buildings = make_scene(1, buildings=1, most=20)
    first = tracks[0].take(np.r_[np.arange(len(tracks[0])), 0, 1])
    ids, height = first.point_id.copy(), first.height.copy()
    ids[-2:], height[-2] = ("above", "twin"), height[0] + 7
    tracks = [replace(first, point_id=ids, height=height), tracks[1]]
    sequences, _, points = found_in(tracks, buildings)
    said = points.point_id[points.track == first.name].tolist()
    assert sorted(said) == sorted(ids)
    of_above = points.point_id == "above"
    height_column = sequences.distance[:, names(DISTANCE).index("height")]
    lowest = min(track.height.min() for track in tracks)
    assert height_column[of_above] == pytest.approx(height[-2] - lowest, abs=1e-4)


def test_the_points_of_some_buildings_are_theirs_and_a_track_left_out_has_none():
    tracks, buildings = make_scene(3, buildings=4)
    early = replace(tracks[0], name="early", epochs=tracks[0].epochs - np.timedelta64(40 * 365, "D"))
    tracks = [early, *tracks]
    prepared = prepare_buildings(tracks, buildings, PARAMS)
    some = np.array([0, 2])
    points = product_points(prepared, some, tracks)
    length = prepared.sequences.length
    rows = np.concatenate([np.arange(*prepared.sequences.offsets[[b, b + 1]]) for b in some])
    assert len(points.point_id) == length[some].sum()
    whole = product_points(prepared, np.arange(len(length)), tracks)
    assert points.point_id.tolist() == whole.point_id[rows].tolist()
    assert set(points.track) == {track.name for track in tracks[1:]}
