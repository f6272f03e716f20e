"""Geometry on both sides of 180 degrees."""

import geopandas
import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.sources.globe import cut, joined, to_degrees, unrolled

ZONES = {"EPSG:32760": 819_787.0, "EPSG:32701": 180_213.0, "EPSG:3832": 3_339_585.0}
"""UTM zones 60 and 1 south, and the Pacific's Mercator -> easting of 180 degrees near 16.8 degrees south."""
NORTHING = {"EPSG:32760": 8_140_000.0, "EPSG:32701": 8_140_000.0, "EPSG:3832": -1_890_000.0}


def box(west, east, south=-16.8001, north=-16.8):
    return shapely.box(west, south, east, north)


@given(st.sampled_from(sorted(ZONES)), st.floats(-300, 300), st.floats(5, 80), st.floats(5, 80), st.floats(0, 360))
def test_a_building_in_degrees_is_cut_to_the_same_ground_and_joined_again(crs, east, width, depth, turned):
    house = shapely.box(ZONES[crs] + east, NORTHING[crs], ZONES[crs] + east + width, NORTHING[crs] + depth)
    house = shapely.affinity.rotate(house, turned)
    one = to_degrees(geopandas.GeoSeries([house], crs=crs))
    parts = cut(one)
    for part in shapely.get_parts(parts):
        west, _, end, _ = part.bounds
        assert -180 <= west < end <= 180
        assert end - west < 0.01
    assert parts[0].is_valid
    assert shapely.area(parts[0]) == pytest.approx(shapely.area(one[0]), rel=1e-6)
    again = joined(parts)
    assert again[0].geom_type == "Polygon"
    back = geopandas.GeoSeries(again, crs="EPSG:4326").to_crs(crs)
    assert shapely.hausdorff_distance(back[0], house) < 0.05


@pytest.mark.parametrize("turn", [360.0, 400.0])
def test_corners_on_both_sides_are_near_to_each_other(turn):
    half = turn / 2
    geometry = np.array([shapely.Polygon([(half - 1, 0), (1 - half, 0), (1 - half, 1), (half - 1, 1)]), box(1, 2)])
    whole, across = unrolled(geometry, turn)
    assert across.tolist() == [True, False]
    assert whole[0].bounds == (half - 1, 0, half + 1, 1)
    assert whole[1] is geometry[1]


def test_a_building_that_ends_at_180_degrees_stays_on_its_side():
    geometry = np.array([box(179.9999, 180.0), box(-180.0, -179.9999), shapely.Point(-180, 0)])
    assert cut(geometry).tolist() == geometry.tolist()
    # Reprojecting may give one corner at 180 degrees the other sign.
    mixed = shapely.Polygon([(179.9999, 0), (180, 0), (-180, 1), (179.9999, 1)])
    assert cut(unrolled(np.array([mixed]))[0])[0].bounds == (179.9999, 0, 180, 1)


def test_lines_and_holes_are_cut_too():
    line, ring = shapely.LineString([(179, 0), (181, 2)]), box(179, 181, 0, 2).difference(box(179.5, 180.5, 0.5, 1.5))
    found = cut(np.array([line, ring]))
    assert shapely.get_coordinates(found[0]).tolist() == [[179, 0], [180, 1], [-180, 1], [-179, 2]]
    assert found[1].geom_type == "MultiPolygon"
    assert found[1].area == pytest.approx(3)


def test_heights_stay():
    solid = shapely.Polygon([(179.9, 0, 5), (-179.9, 0, 6), (-179.9, 1, 7)])
    assert shapely.get_coordinates(unrolled(np.array([solid]))[0], include_z=True)[:3, 2].tolist() == [5, 6, 7]
