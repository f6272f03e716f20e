import geopandas
import numpy as np
import pytest
import shapely

from plumbline.core.errors import InputError
from plumbline.sources.footprints.area import Ground, ground_of

HERE, THERE = "EPSG:3035", "EPSG:32756"


def buildings(**columns):
    boxes = shapely.box([0, 10, 20], 0, [4, 14, 24], 8)
    return geopandas.GeoDataFrame({"building_id": list("abc"), **columns}, geometry=boxes, crs=HERE)


def moved(**changes):
    columns = {"ground_crs": THERE, "ground_easting": [1.0, 2.0, 3.0], "ground_northing": [4.0, 5.0, 6.5]}
    return buildings(**(columns | changes))


def test_a_city_that_was_not_moved_stands_where_it_lies():
    found = ground_of(buildings(), HERE, "f")
    assert found.crs == HERE
    np.testing.assert_array_equal(found.centre, [[2, 4], [12, 4], [22, 4]])
    incomplete = moved().drop(columns="ground_crs")
    np.testing.assert_array_equal(ground_of(incomplete, HERE, "f").centre, found.centre)


def test_a_moved_city_stands_where_its_columns_say():
    found = ground_of(moved(), HERE, "f")
    assert isinstance(found, Ground)
    assert found.crs == THERE
    np.testing.assert_array_equal(found.centre, [[1, 4], [2, 5], [3, 6.5]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ground_crs": [THERE, THERE, HERE]}, "column ground_crs: EPSG:3035, EPSG:32756 found; one projected CRS"),
        ({"ground_crs": "EPSG:4326"}, "column ground_crs: EPSG:4326 found"),
        ({"ground_crs": "nowhere"}, "column ground_crs: nowhere found"),
        ({"ground_crs": None}, "column ground_crs: (None|nan) found"),
        ({"ground_easting": [1.0, np.nan, 2.0]}, "columns ground_easting, ground_northing: nan, 5.0 found in row 2"),
        ({"ground_northing": ["1", "2", "x"]}, "columns ground_easting, ground_northing: 3.0, x found in row 3"),
        ({"ground_northing": [1.0, np.inf, 2.0]}, "columns ground_easting, ground_northing: 2.0, inf found in row 2"),
    ],
)
def test_columns_that_say_no_place_are_refused(changes, message):
    with pytest.raises(InputError, match=f"f of town: {message}"):
        ground_of(moved(**changes), HERE, "f of town")
