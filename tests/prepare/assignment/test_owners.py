"""Points beside two houses: each counts for the one that it moves with."""

from dataclasses import replace

import numpy as np
import pytest

from plumbline.params import Prepare
from plumbline.prepare.assignment.nearest import assign_points
from plumbline.prepare.assignment.owners import find_owners
from tests.prepare.made import PARAMS, terrace


def by_position(tracks, footprints, params=PARAMS):
    return [assign_points(track.easting, track.northing, footprints, params.buffer_m).owner for track in tracks]


def wrong(found, true):
    return np.mean(np.concatenate(found) != np.concatenate(true))


@pytest.mark.parametrize("seed", range(3))
def test_houses_that_settle_on_their_own_keep_their_points(seed):
    tracks, footprints, true = terrace(seed)
    before, after = by_position(tracks, footprints), find_owners(tracks, footprints, PARAMS)
    assert wrong(before, true) > 0.03
    assert wrong(after.of, true) < 0.4 * wrong(before, true)
    changed = sum(int((one != two).sum()) for one, two in zip(before, after.of, strict=True))
    assert changed == after.moved


@pytest.mark.parametrize("seed", range(3))
def test_houses_that_move_alike_keep_what_is_nearest(seed):
    tracks, footprints, _ = terrace(seed, settled_mm=0.0)
    assert find_owners(tracks, footprints, PARAMS).moved <= 0.05 * sum(map(len, tracks))


@pytest.mark.parametrize("seed", range(3))
def test_a_broken_corner_at_the_wall_stays_with_its_house(seed):
    """The next house does not move as the corner does: what fits neither is whose it is by its place."""
    tracks, footprints, true = terrace(seed, off_m=0.0, broken=2)
    lost = []
    for track, owner, found in zip(tracks, true, find_owners(tracks, footprints, PARAMS).of, strict=True):
        middle = footprints[2].centroid
        corner = (owner == 2) & (track.easting > middle.x) & (track.northing > middle.y)
        lost.append(found[corner] != 2)
    assert np.concatenate(lost).mean() <= 0.2


def test_without_a_buffer_positions_are_taken_as_they_are():
    tracks, footprints, _ = terrace(1)
    exact = Prepare(buffer_m=0)
    found = find_owners(tracks, footprints, exact)
    assert found.moved == 0
    for one, two in zip(found.of, by_position(tracks, footprints, exact), strict=True):
        assert one.tolist() == two.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_neither_the_order_of_the_houses_nor_that_of_the_points_counts(seed):
    tracks, footprints, _ = terrace(seed)
    found = find_owners(tracks, footprints, PARAMS).of
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(footprints))
    shuffles = [rng.permutation(len(track)) for track in tracks]
    mixed = find_owners(
        [track.take(rows) for track, rows in zip(tracks, shuffles, strict=True)][::-1], footprints[order], PARAMS
    ).of[::-1]
    for one, two, rows in zip(found, mixed, shuffles, strict=True):
        assert np.where(two >= 0, order[two], -1).tolist() == one[rows].tolist()


def test_series_with_gaps_jumps_and_few_values_are_borne():
    tracks, footprints, true = terrace(3)
    spoilt = []
    rng = np.random.default_rng(0)
    for track in tracks:
        series = track.displacement.copy()
        series[rng.random(series.shape) < 0.2] = np.nan
        series[::9, 30:] += 28.0  # half a wavelength
        series[::31, 5:] = np.nan
        spoilt.append(replace(track, displacement=series))
    found = find_owners(spoilt, footprints, PARAMS)
    assert wrong(found.of, true) < 0.6 * wrong(by_position(tracks, footprints), true)


def test_no_footprints_and_no_points_are_borne():
    tracks, footprints, _ = terrace(0, houses=2)
    nobody = np.zeros(0, object)
    assert all((owner == -1).all() for owner in find_owners(tracks, nobody, PARAMS).of)
    assert find_owners([track.take(np.zeros(0, int)) for track in tracks], footprints, PARAMS).moved == 0
    far = [replace(track, easting=track.easting + 1e4) for track in tracks]
    assert find_owners(far, footprints, PARAMS).moved == 0
