"""What moves in a city: groups of points that differ from the others by more than noise, and lie together."""

from dataclasses import replace

import geopandas
import numpy as np
import pytest
import shapely

from plumbline.serve.place.moving_areas import (
    COLUMNS,
    MIN_MOVING_SHARE,
    MIN_POINTS,
    MOVES,
    Velocities,
    group_points,
    moving_areas,
)
from plumbline.sources.points.track import Track

EPOCHS = np.datetime64("2020-01-01") + 12 * np.arange(60)
YEARS = (EPOCHS - EPOCHS[0]) / np.timedelta64(1, "D") / 365.25
PLACE = np.stack(np.meshgrid(np.arange(0, 800, 20.0), np.arange(0, 800, 20.0)), -1).reshape(-1, 2)
"""m, a grid of 1,600 points."""
SUNK = (np.abs(PLACE - [200, 200]) <= 45).all(1)
RISEN = (np.abs(PLACE - [600, 500]) <= 45).all(1)


def track(velocity, noise_mm=2.0, seed=0):
    draw = np.random.default_rng(seed)
    displacement = velocity[:, None] * YEARS + draw.normal(0, noise_mm, (len(PLACE), len(EPOCHS)))
    return Track(
        name="asc",
        crs="EPSG:25832",
        epochs=EPOCHS,
        point_id=np.arange(len(PLACE)).astype(str).astype(object),
        easting=500_000 + PLACE[:, 0],
        northing=5_000_000 + PLACE[:, 1],
        height=np.zeros(len(PLACE)),
        los=np.tile([-0.5, -0.1, 0.85], (len(PLACE), 1)),
        displacement=displacement.astype(np.float32),
    )


@pytest.fixture
def footprints():
    boxes = [shapely.box(500_000 + x, 5_000_000 + 195, 500_000 + x + 10, 5_000_000 + 205) for x in (180, 200, 400)]
    return geopandas.GeoDataFrame({"building_id": ["a", "b", "c"]}, geometry=boxes, crs="EPSG:25832")


def test_areas_are_found_with_rate_points_and_buildings(footprints):
    found = moving_areas([track(1.0 - 9.0 * SUNK + 6.0 * RISEN)], footprints)
    assert tuple(found.columns) == COLUMNS
    assert found["name"].tolist() == ["A1", "A2"]
    # The track's own reference, 1 mm a year, is no movement.
    np.testing.assert_allclose(found["rate_mm_year"], [-9, 6], atol=0.3)
    np.testing.assert_allclose(found["displacement_mm"], found["rate_mm_year"] * YEARS[-1])
    assert found["points"].tolist() == [SUNK.sum(), RISEN.sum()]
    assert found["buildings"].tolist() == [2, 0]
    assert found["quality"].tolist() == [1, 1]
    assert shapely.contains_xy(found.geometry[0], 500_200, 5_000_200)
    assert found.crs == footprints.crs


def test_noise_and_lone_points_are_no_area(footprints):
    draw = np.random.default_rng(1)
    lone = np.isin(np.arange(len(PLACE)), draw.choice(len(PLACE), 60, replace=False))
    assert moving_areas([track(-9.0 * lone)], footprints).empty
    moved = track(-9.0 * SUNK)
    order = draw.permutation(len(PLACE))
    assert moving_areas(
        [replace(moved, easting=moved.easting[order], northing=moved.northing[order])], footprints
    ).empty


def test_neighbours_that_move_against_each_other_are_two_areas(footprints):
    west, east = SUNK & (PLACE[:, 0] <= 200), SUNK & (PLACE[:, 0] > 200)
    found = moving_areas([track(8.0 * west - 8.0 * east)], footprints)
    assert sorted(np.sign(found["rate_mm_year"])) == [-1, 1]


def test_quality_says_whether_points_move_alike_over_time(footprints):
    draw = np.random.default_rng(2)
    alike = track(-9.0 * SUNK)
    wander = np.cumsum(draw.normal(0, 8, alike.displacement.shape), axis=1).astype(np.float32)
    slope = (wander @ (YEARS - YEARS.mean())) / ((YEARS - YEARS.mean()) ** 2).sum()
    wander -= slope[:, None] * YEARS  # what no velocity shows
    apart = replace(alike, displacement=(alike.displacement + SUNK[:, None] * wander).astype(np.float32))
    assert moving_areas([apart], footprints)["quality"].max() == 3


def test_points_without_values_and_few_points_are_taken(footprints):
    moved = track(-9.0 * SUNK)
    moved.displacement[::7] = np.nan
    moved.displacement[3, 5:50] = np.nan
    assert len(moving_areas([moved], footprints)) == 1
    assert moving_areas([moved.take(np.arange(3)), moved.take(np.zeros(0, np.intp))], footprints).empty


def test_groups_are_those_that_counting_neighbours_one_by_one_gives():
    draw = np.random.default_rng(3)
    place, reach = draw.uniform(0, 100, (400, 2)), 12.0
    velocity = draw.normal(0, 1, 400) - 9.0 * (np.hypot(*(place - 30).T) < 20) + 9.0 * (place[:, 0] > 85)
    near = np.hypot(*(place[:, None] - place).transpose(2, 0, 1)) <= reach
    sign = np.sign(velocity) * (np.abs(velocity) > MOVES)
    for _ in range(2):
        alike = [(sign[own] == way).mean() for own, way in zip(near, sign, strict=True)]
        sign[np.array(alike) <= MIN_MOVING_SHARE] = 0
    wanted, left = set(), set(np.flatnonzero(sign).tolist())
    while left:
        group, edge = set(), {left.pop()}
        while edge:
            point = edge.pop()
            group.add(point)
            edge |= {other for other in left - group if near[point, other] and sign[point] == sign[other]}
        left -= group
        wanted |= {tuple(sorted(group))} if len(group) >= MIN_POINTS else set()
    found = group_points(place, Velocities(velocity, 1.0), reach)
    assert {tuple(own.tolist()) for own in found} == wanted
    assert len(wanted) > 1
