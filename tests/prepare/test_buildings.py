from dataclasses import replace

import numpy as np
import pytest
import torch

from plumbline.core.on_disk import Stack, folder_of
from plumbline.params import Prepare
from plumbline.prepare import buildings as blocks
from plumbline.prepare.assignment import owners
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, names
from plumbline.prepare.features.sequences import UNDEFINED
from plumbline.train.data.batches import BuildingSet
from plumbline.train.data.sampler import Symmetry
from tests.prepare.made import (
    ASCENDING,
    DESCENDING,
    EPOCHS,
    ORIGIN,
    PARAMS,
    box,
    los_of,
    make_buildings,
    make_scene,
    make_track,
    series,
)
from tests.refusals import refuses
from tests.train.made import apply_symmetry


def column(table, name):
    return names(table).index(name)


def one_building(degrees=0.0, size=(20.0, 12.0), count=24, seed=0, corner_mm=-30.0, *, los=(ASCENDING, DESCENDING)):
    """A building whose north-east corner drops, seen by two tracks."""
    rng = np.random.default_rng(seed)
    inside = rng.uniform(-0.48, 0.48, (count, 2)) * size
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    position = inside @ [[cos, sin], [-sin, cos]] + ORIGIN
    up = corner_mm * np.clip(2 * inside / size, 0, None).prod(1)
    height, track = rng.uniform(0, 12, count), np.arange(count) % 2
    vectors = los_of(*los)
    tracks = []
    for i, name in enumerate(("up", "down")):
        moved = series(up[track == i] * vectors[i, 2], np.random.default_rng(i))
        tracks.append(make_track(name, position[track == i], height[track == i], vectors[i], moved))
    return tracks, make_buildings([box(*size, degrees=degrees)])


def same(one, other, index_one=None, index_other=None, atol=2e-4):
    """The prepared buildings are the same, up to rounding."""
    a = one.sequences if index_one is None else one.sequences.take(np.asarray(index_one))
    b = other.sequences if index_other is None else other.sequences.take(np.asarray(index_other))
    assert a.building_id.tolist() == b.building_id.tolist()
    np.testing.assert_array_equal(a.length, b.length)
    for name in ("distance", "slope", "geometry"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=atol, rtol=1e-3, err_msg=name)


def test_each_footprint_is_counted_and_few_points_are_left_out():
    tracks, buildings = make_scene(seed=1)
    prepared = prepare_buildings(tracks, buildings, PARAMS, "town")
    assert prepared.n_points.sum() == sum(map(len, tracks))
    np.testing.assert_array_equal(prepared.footprint, np.flatnonzero(prepared.n_points >= PARAMS.min_points))
    assert 0 < len(prepared.footprint) < len(buildings)
    assert prepared.sequences.building_id.tolist() == [f"b{i}" for i in prepared.footprint]
    np.testing.assert_array_equal(prepared.sequences.length, prepared.n_points[prepared.footprint])
    assert set(prepared.sequences.city) == {"town"}
    assert np.isnan(prepared.sequences.severity).all()
    assert (prepared.sequences.quadrant == UNDEFINED).all()


@pytest.mark.parametrize(("place", "side"), [(0, 400.0), (6, 3700.0), (12, 400.0)])
def test_an_outline_that_is_not_judged_takes_no_points_of_those_that_are(place, side):
    tracks, buildings = make_scene(seed=1)
    alone = prepare_buildings(tracks, buildings, PARAMS)
    outline = box(side, side)
    shapes = buildings.geometry.tolist()
    with_outline = make_buildings([*shapes[:place], outline, *shapes[place:]])
    with_outline["building_id"] = [*buildings["building_id"][:place], "outline", *buildings["building_id"][place:]]
    prepared = prepare_buildings(tracks, with_outline, PARAMS)
    same(prepared, alone)
    assert np.delete(prepared.n_points, place).tolist() == alone.n_points.tolist()
    assert prepared.left_out.counts["too_large"] == 1


def spoilt_column(track, name, value):
    """The track with a wrong value in the first three rows of a column."""
    values = getattr(track, name).copy()
    values[:3] = value
    return replace(track, **{name: values})


GAPPED = np.where(np.arange(len(EPOCHS)) % 7, 1.0, np.nan)
FEW = np.where(np.arange(len(EPOCHS)) < 7, np.arange(len(EPOCHS)), np.nan)
USELESS = {
    **{
        f"{name} {value}": (name, value)
        for name in ("height", "easting", "northing", "los")
        for value in (np.nan, np.inf)
    },
    "seven values": ("displacement", FEW),
    "never changes": ("displacement", -12.5 * GAPPED),
    "all zero": ("displacement", 0 * GAPPED),
}


@pytest.mark.parametrize(("column", "value"), USELESS.values(), ids=USELESS)
def test_a_point_without_place_line_of_sight_or_usable_series_does_not_count(column, value):
    tracks, buildings = one_building()
    without = prepare_buildings([tracks[0].take(np.arange(3, 12)), tracks[1]], buildings, PARAMS)
    found = prepare_buildings([spoilt_column(tracks[0], column, value), tracks[1]], buildings, PARAMS)
    assert found.n_points.tolist() == without.n_points.tolist() == [21]
    np.testing.assert_array_equal(found.sequences.geometry, without.sequences.geometry)


def test_a_series_of_eight_values_is_enough():
    tracks, buildings = one_building()
    eight = np.where(np.arange(len(EPOCHS)) < 8, np.arange(len(EPOCHS)), np.nan)
    found = prepare_buildings([spoilt_column(tracks[0], "displacement", eight), tracks[1]], buildings, PARAMS)
    assert found.n_points.tolist() == [24]


@pytest.mark.parametrize(("size", "axis"), [((20, 12), "x"), ((12, 20), "y")])
def test_rows_run_along_the_long_axis(size, axis):
    prepared = prepare_buildings(*one_building(size=size), PARAMS)
    assert (np.diff(prepared.sequences.distance[:, column(DISTANCE, axis)]) > 0).all()


def test_positions_are_those_of_the_building_frame():
    for degrees in (0, 30, -40):
        tracks, buildings = one_building(degrees)
        distance = prepare_buildings(tracks, buildings, PARAMS).sequences.distance
        straight = prepare_buildings(*one_building(), PARAMS).sequences.distance
        np.testing.assert_allclose(distance, straight, atol=5e-3)
    x, y = distance[:, column(DISTANCE, "x")], distance[:, column(DISTANCE, "y")]
    np.testing.assert_allclose(distance[:, column(DISTANCE, "x_relative")], x / 10, atol=1e-3)
    np.testing.assert_allclose(distance[:, column(DISTANCE, "y_relative")], y / 6, atol=1e-3)
    np.testing.assert_allclose(distance[:, column(DISTANCE, "radius")], np.hypot(x, y), atol=1e-3)
    assert distance[:, column(DISTANCE, "height")].min() == 0


def test_geometry_says_what_the_building_is():
    geometry = prepare_buildings(*one_building(), PARAMS).sequences.geometry[0]
    value = dict(zip(names(GEOMETRY), geometry, strict=True))
    expected = {"side_x": 20, "side_y": 12, "length": 20, "width": 12, "log_area": np.log(240), "rectangularity": 1}
    expected |= {"log_points": np.log(24), "tracks": 2, "years": (EPOCHS[-1] - EPOCHS[0]).astype(int) / 365.25}
    for name, wanted in expected.items():
        assert value[name] == pytest.approx(wanted, rel=1e-4), name
    assert sum(value[f"points_{quadrant}"] for quadrant in ("ne", "nw", "sw", "se")) == pytest.approx(1)


def test_a_dropping_corner_is_told_by_its_column():
    geometry = prepare_buildings(*one_building(count=60), PARAMS).sequences.geometry[0]
    value = dict(zip(names(GEOMETRY), geometry, strict=True))
    assert value["corner_drop_ne"] == pytest.approx(-30, rel=0.15)
    gains = [value[f"best_gain_{quadrant}"] for quadrant in ("ne", "nw", "sw", "se")]
    assert np.argmax(gains) == 0


def moved_rigidly(tracks, settlement, tilt, offset):
    """The tracks of a building that settles and tilts besides, steadily, with another reference for each."""
    moved = []
    for track, own in zip(tracks, offset, strict=True):
        xy = np.column_stack([track.easting, track.northing]) - ORIGIN
        rigid = (settlement + xy @ tilt) * track.los[:, 2] - track.height * (track.los[:, :2] @ tilt)
        when = (track.epochs - EPOCHS[0]) / (EPOCHS[-1] - EPOCHS[0])
        both = track.displacement + (rigid + own)[:, None] * when
        moved.append(replace(track, displacement=both.astype(np.float32)))
    return moved


def test_settlement_and_the_reference_of_a_track_change_nothing():
    tracks, buildings = one_building()
    before = prepare_buildings(tracks, buildings, PARAMS).sequences
    after = prepare_buildings(moved_rigidly(tracks, -40, [0, 0], (70, -55)), buildings, PARAMS).sequences
    np.testing.assert_allclose(after.slope, before.slope, atol=0.05)
    np.testing.assert_allclose(after.geometry, before.geometry, atol=0.05)


def test_a_tilt_changes_the_tilt_and_makes_the_rest_less_sure():
    """Of what moves as the tilt does, a part may be the wrong positions': within what the errors then say."""
    tracks, buildings = one_building()
    before = prepare_buildings(tracks, buildings, PARAMS).sequences
    after = prepare_buildings(moved_rigidly(tracks, -40, [1.2, -0.7], (70, -55)), buildings, PARAMS).sequences
    tilts = [column(GEOMETRY, "tilt_x"), column(GEOMETRY, "tilt_y")]
    np.testing.assert_allclose((after.geometry - before.geometry)[0, tilts], [1.2, -0.7], atol=0.3)
    up, error = column(SLOPE, "differential_displacement"), column(SLOPE, "differential_displacement_se")
    off = (after.slope - before.slope)[:, up] / after.slope[:, error]
    assert np.sqrt(np.mean(off**2)) < 1
    assert np.median(after.slope[:, error] / before.slope[:, error]) > 1.1


@pytest.mark.parametrize("seed", range(2))
def test_a_building_does_not_depend_on_the_others(seed):
    tracks, buildings = make_scene(seed=seed)
    # A track over some of the buildings only: its column must not matter to the rest.
    third = tracks[0].take(np.arange(0, len(tracks[0]), 5))
    tracks = [*tracks, replace(third, name="third", easting=third.easting + 0.3, height=third.height + 1)]
    everything = prepare_buildings(tracks, buildings, PARAMS)
    for place, row in enumerate(everything.footprint):
        alone = prepare_buildings(tracks, buildings.iloc[[row]].reset_index(drop=True), PARAMS)
        same(alone, everything, index_other=[place])


def test_the_order_of_points_tracks_and_buildings_does_not_matter():
    tracks, buildings = make_scene(seed=6)
    everything = prepare_buildings(tracks, buildings, PARAMS)
    rng = np.random.default_rng(0)
    shuffled = [track.take(rng.permutation(len(track))) for track in tracks]
    same(prepare_buildings(shuffled[::-1], buildings, PARAMS), everything)
    order = rng.permutation(len(buildings))
    mixed = prepare_buildings(tracks, buildings.iloc[order].reset_index(drop=True), PARAMS)
    place = {name: i for i, name in enumerate(mixed.sequences.building_id)}
    same(mixed, everything, index_one=[place[name] for name in everything.sequences.building_id])


@pytest.mark.parametrize("count", [9, 17, 100])
def test_a_long_sequence_is_thinned_evenly(count):
    tracks, buildings = one_building(count=count)
    params = Prepare(max_points=8)
    thinned = prepare_buildings(tracks, buildings, params)
    x = column(DISTANCE, "x")
    kept = thinned.sequences.distance[:, x]
    every = prepare_buildings(tracks, buildings, PARAMS).sequences.distance[:, x]
    assert thinned.n_points.tolist() == [count]
    assert len(kept) == 8
    rank = np.searchsorted(every, kept - 1e-3)
    np.testing.assert_allclose(every[rank], kept, atol=1e-3)
    assert np.diff(rank).max() <= np.ceil(count / 8)
    assert rank[0] == 0


def mirrored(tracks, buildings, which: Symmetry):
    """The same scene, buildings, points and lines of sight, mirrored about ORIGIN."""

    def move(east, north):
        east, north = (-east if which.mirror_x else east), (-north if which.mirror_y else north)
        return (north, east) if which.swap else (east, north)

    moved = []
    for track in tracks:
        easting, northing = move(track.easting - ORIGIN[0], track.northing - ORIGIN[1])
        los_east, los_north = move(track.los[:, 0], track.los[:, 1])
        los = np.column_stack([los_east, los_north, track.los[:, 2]])
        moved.append(replace(track, easting=easting + ORIGIN[0], northing=northing + ORIGIN[1], los=los))
    west, south, east, north = buildings.total_bounds - np.array([*ORIGIN, *ORIGIN])
    size = (north - south, east - west) if which.swap else (east - west, north - south)
    return moved, make_buildings([box(*size)])


# East and north alike, so that swapping the axes leaves the response to an eastward movement as it is.
DIAGONAL = ((-0.4, -0.4, 0.82), (0.45, 0.45, 0.77))


@pytest.mark.parametrize(
    ("which", "los", "size"),
    [
        (Symmetry(True, False, False), (ASCENDING, DESCENDING), (20.0, 12.0)),
        (Symmetry(False, True, False), (ASCENDING, DESCENDING), (12.0, 20.0)),
        (Symmetry(True, True, False), (ASCENDING, DESCENDING), (20.0, 12.0)),
        (Symmetry(False, False, True), DIAGONAL, (12.0, 20.0)),
        (Symmetry(True, False, True), DIAGONAL, (20.0, 12.0)),
        (Symmetry(True, True, True), DIAGONAL, (12.0, 20.0)),
    ],
)
def test_augmentation_gives_what_a_mirrored_house_would(which, los, size):
    tracks, buildings = one_building(size=size, los=los)
    turned, straight = (
        BuildingSet(prepare_buildings(*scene, PARAMS).sequences)[np.array([0])]
        for scene in (mirrored(tracks, buildings, which), (tracks, buildings))
    )
    augmented = apply_symmetry(straight, which)
    np.testing.assert_allclose(augmented.distance_BLF, turned.distance_BLF, atol=1e-3)
    np.testing.assert_allclose(augmented.geometry_BF, turned.geometry_BF, atol=5e-3, rtol=1e-3)
    if which.swap:
        # Satellites see movement to the east and not to the north, so the movement they see does not swap its axis.
        x, y = column(SLOPE, "local_east_x"), column(SLOPE, "local_east_y")
        for batch in (augmented, turned):
            batch.slope_BLF[..., x] = torch.hypot(batch.slope_BLF[..., x], batch.slope_BLF[..., y])
            batch.slope_BLF[..., y] = 0
    np.testing.assert_allclose(augmented.slope_BLF, turned.slope_BLF, atol=5e-3, rtol=1e-3)


def test_one_epoch_and_another_crs_are_refused():
    tracks, buildings = one_building()
    short = replace(tracks[0], epochs=EPOCHS[:1], displacement=tracks[0].displacement[:, :1])
    with refuses("epochs.too_few", "up: 1 epoch "):
        prepare_buildings([short], buildings, PARAMS)
    with refuses("points.several_crss", "down: CRS EPSG:32633"):
        prepare_buildings([tracks[0], replace(tracks[1], crs="EPSG:32633")], buildings, PARAMS)
    with refuses("points.several_crss", "CRS EPSG:3035"):
        prepare_buildings(tracks, buildings.set_crs("EPSG:32633", allow_override=True), PARAMS)


def test_a_city_in_blocks_is_the_city_as_a_whole(monkeypatch):
    tracks, buildings = make_scene(seed=4)
    whole = prepare_buildings(tracks, buildings, PARAMS)
    monkeypatch.setattr(blocks, "BLOCK", 30)
    monkeypatch.setattr(owners, "SERIES_BLOCK", 7)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert len(blocks._bounds(whole.owners, len(buildings))) > 4
    cut = prepare_buildings(tracks, buildings, PARAMS)
    same(cut, whole, atol=1e-5)
    for name in ("footprint", "n_points", "track", "point"):
        np.testing.assert_array_equal(getattr(cut, name), getattr(whole, name), err_msg=name)
    np.testing.assert_array_equal(cut.left_out.code, whole.left_out.code)
    for one, other in zip(cut.means, whole.means, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_city_with_its_series_on_disk_is_the_one_in_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(blocks, "BLOCK", 100)
    tracks, buildings = make_scene()
    away = []
    for track in tracks:
        stack = Stack(tmp_path)
        stack.add(track.displacement)
        away.append(replace(track, displacement=stack.array()))
    wanted, found = prepare_buildings(tracks, buildings, PARAMS), prepare_buildings(away, buildings, PARAMS)
    for one, other in ((wanted.sequences.distance, found.sequences.distance), (wanted.point, found.point)):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(found.sequences.slope, wanted.sequences.slope)
    assert folder_of(found.sequences.slope) == folder_of(found.sequences.distance) == tmp_path
    assert list(tmp_path.iterdir()) == []
