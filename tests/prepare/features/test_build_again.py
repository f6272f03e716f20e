import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.features.build import recover
from plumbline.prepare.features.definition import GEOMETRY, names
from tests.prepare.made import FEWER, PARAMS, make_scene


@given(st.integers(0, 1000))
@FEWER
def test_scatterers_are_those_of_the_tracks(seed):
    """Along the lines of sight, positions and tracks are recovered; changes are, but for rigid motion and offsets."""
    tracks, buildings = make_scene(seed)
    sequences = prepare_buildings(tracks, buildings, PARAMS).sequences
    found = recover(sequences)
    assert found.los[:, 2] == pytest.approx(np.where(found.los[:, 2] > 0.81, 0.826, 0.792), abs=0.01)
    for number in range(len(sequences)):
        own = found.building == number
        by_track = {round(float(up), 4) for up in found.los[own, 2]}
        assert len(set(found.track[own].tolist())) == len(by_track) == int(sequences.geometry[number][8])
    assert len(tracks) >= int(sequences.geometry[:, 8].max())


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
