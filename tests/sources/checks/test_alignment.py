from dataclasses import replace

import geopandas
import numpy as np
import pytest
import shapely

from plumbline.params import Product
from plumbline.sources.alignment import MIN_SHIFT_M, alignment, warn_of_offset
from tests.refusals import warned, warning_keys
from tests.sources.make import EAST, NORTH, PITCH_M, SIDE_M, seen, town


@pytest.mark.parametrize(("moved", "error_m"), [((-20.0, 0.0), 0.5), ((-6.0, -15.0), 3.0)])
def test_a_shift_is_found_to_the_metre(moved, error_m):
    frame, corner, size = town()
    points = [seen(corner, size, look, error_m=error_m, moved=moved, seed=look + 2) for look in (-1, 1)]
    found = alignment(points, frame.geometry.to_numpy())
    assert found.is_beside
    assert np.hypot(found.east_m + moved[0], found.north_m + moved[1]) <= 1.5
    assert found.inside_moved > found.inside + 0.1


@pytest.mark.parametrize(("error_m", "seed"), [(0.5, 0), (6.0, 2)])
def test_points_where_they_belong_are_left_there(caplog, error_m, seed):
    frame, corner, size = town(seed)
    points = [seen(corner, size, look, error_m=error_m, seed=seed + look) for look in (0, 1)]
    assert not alignment(points, frame.geometry.to_numpy()).is_beside
    warn_of_offset(points, frame, "a.csv", {})
    assert not warning_keys(caplog)


def test_walls_that_face_the_satellite_are_no_shift():
    """Seen from one side, points lie off the middle of houses, by less than what is told; two sides make even."""
    frame, corner, size = town()
    both = [seen(corner, size, look, wall=0.6, seed=look + 2) for look in (-1, 1)]
    for points in ([both[0]], [both[1]], both):
        found = alignment(points, frame.geometry.to_numpy())
        assert not found.is_beside
        assert np.hypot(found.east_m, found.north_m) < MIN_SHIFT_M
    moved = [replace(one, easting=one.easting + 8) for one in both]
    assert alignment(moved, frame.geometry.to_numpy()).east_m == pytest.approx(-8, abs=1)


def test_points_that_have_nothing_to_do_with_the_footprints_are_not_beside_them():
    frame, corner, size = town()
    rng = np.random.default_rng(5)
    places = rng.uniform(corner.min(0), corner.max(0), (3000, 2))
    points = replace(seen(corner, size, 1), easting=places[:1728, 0], northing=places[:1728, 1])
    assert not alignment([points], frame.geometry.to_numpy()).is_beside


def test_the_same_points_twice_are_no_more_evidence_than_once():
    frame, corner, size = town()
    up = seen(corner, size, 1, moved=(9.0, 0.0))
    up = replace(up, los=np.tile([0.0, 0.0, 1.0], (len(up), 1)))
    east = replace(up, los=np.tile([1.0, 0.0, 0.0], (len(up), 1)))
    shapes = frame.geometry.to_numpy()
    assert alignment([up, east], shapes).errors == pytest.approx(alignment([up], shapes).errors, rel=0.25)


def test_too_few_points_say_nothing():
    frame, corner, size = town()
    few = seen(corner[:5], size[:5], 1, moved=(9.0, 0.0))
    assert alignment([few], frame.geometry.to_numpy()) is None
    assert alignment([few.take(np.arange(0))], frame.geometry.to_numpy()) is None


@pytest.mark.parametrize(
    ("moved", "products", "places"),
    [
        ((7.0, -4.0), {}, ["7 m east and 4 m south", "--params", 'ingest: {products: {"*": {moved_m: [-7, 4]}}}']),
        ((7.0, -4.0), {"*": Product(moved_m=(1, 2))}, ["add [-7, 4] to moved_m"]),
        ((7.0, -4.0), {"a*": Product(track="asc")}, ["moved_m: [-7, 4] in every pattern"]),
        ((29.0, 0.0), {}, ["27 m east, or farther", "check datum and CRS"]),
    ],
    ids=["line", "stated", "pattern", "farther"],
)
def test_the_warning_says_what_to_write_unless_the_shift_is_beyond_all_that_are_tried(caplog, moved, products, places):
    frame, corner, size = town()
    points = [seen(corner, size, look, moved=moved, seed=look + 2) for look in (-1, 1)]
    warn_of_offset(points, frame, "a.csv", products)
    assert warned(caplog, "points.shifted", "a.csv", *places)


def test_streets_that_fit_themselves_elsewhere_are_no_answer():
    """Houses of one size on a grid: after any move by its pitch nearly as many points lie on them again."""
    frame, corner, size = town()
    corner = corner - corner % PITCH_M + np.array([EAST, NORTH]) % PITCH_M
    even = geopandas.GeoDataFrame(geometry=shapely.box(*corner.T, *(corner + SIDE_M).T), crs=frame.crs)
    points = [
        seen(corner, np.full_like(size, SIDE_M), look, moved=(PITCH_M / 2, 0.0), seed=look + 2) for look in (-1, 1)
    ]
    found = alignment(points, even.geometry.to_numpy())
    assert found.inside_moved - found.inside > 0.3
    assert not found.is_beside
