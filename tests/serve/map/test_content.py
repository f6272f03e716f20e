"""What the map shows is worked out right: velocities, quarters, points near buildings, descriptions, directions."""

import re

import geopandas
import numpy as np
import pyproj
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.abstention import STATUSES
from plumbline.serve.map.content import description, east_angles_deg, map_crs, points_near_buildings
from plumbline.sources.points.epochs import velocity_mm_per_year
from plumbline.sources.points.track import Track
from tests.serve.made import table_of
from tests.serve.map.town import EAST, EPOCHS, NORTH, house, town, track


@given(
    slope=st.floats(-50, 50),
    offset=st.floats(-100, 100),
    missing=st.sets(st.integers(0, len(EPOCHS) - 1), max_size=len(EPOCHS) - 2),
)
def test_velocity_of_a_line_is_its_slope_whatever_is_missing(slope: float, offset: float, missing: set[int]) -> None:
    years = (EPOCHS - EPOCHS[0]).astype(float) / 365.25
    displacement = (offset + slope * years).astype(np.float32)[None]
    displacement[0, list(missing)] = np.nan
    assert velocity_mm_per_year(displacement, EPOCHS) == pytest.approx(slope, abs=2e-3)


def test_velocity_is_least_squares() -> None:
    displacement = np.random.default_rng(1).normal(0, 3, (4, len(EPOCHS))).astype(np.float32)
    years = (EPOCHS - EPOCHS[0]).astype(float) / 365.25
    expected = np.polyfit(years, displacement.T, 1)[0]
    np.testing.assert_allclose(velocity_mm_per_year(displacement, EPOCHS), expected, rtol=1e-5)
    displacement[:, 1:] = np.nan  # a single epoch
    assert np.isnan(velocity_mm_per_year(displacement, EPOCHS)).all()


def test_the_maps_crs_is_in_metres() -> None:
    table = town()
    assert map_crs(table, [track(3, crs="EPSG:3035")]) == pyproj.CRS("EPSG:3035")
    assert map_crs(table, []) == pyproj.CRS("EPSG:32633")
    assert map_crs(table.to_crs("EPSG:4326"), []) == pyproj.CRS("EPSG:32633")
    assert map_crs(table.to_crs("EPSG:2263"), []).axis_info[0].unit_name == "metre"  # New York, in feet


def test_points_are_cropped_and_evenly_thinned() -> None:
    many, few = track(9000, "many"), track(1000, "few", seed=1)
    bounds = np.array([EAST, NORTH, EAST + 360, NORTH + 120])
    a, b = points_near_buildings([many, few], pyproj.CRS("EPSG:32633"), bounds, 1000)
    assert (a.near, b.near) == (9000, 1000)
    assert (len(a.velocity), len(b.velocity)) == (900, 100)
    assert np.diff(a.velocity).max() == pytest.approx(10 / 9000, rel=0.2)  # velocity counts the points: no gaps
    far = points_near_buildings([many], pyproj.CRS("EPSG:32633"), bounds + 1000, 1000)[0]
    assert (far.near, far.velocity.size) == (0, 0)


def test_points_of_another_crs_land_in_the_map() -> None:
    there = track(50)
    east, north = pyproj.Transformer.from_crs("EPSG:32633", "EPSG:3035", always_xy=True).transform(
        there.easting, there.northing
    )
    other = Track("o", "EPSG:3035", EPOCHS, there.point_id, east, north, there.height, there.los, there.displacement)
    bounds = np.array([EAST, NORTH, EAST + 360, NORTH + 120])
    drawn = points_near_buildings([other], pyproj.CRS("EPSG:32633"), bounds, 1000)[0]
    np.testing.assert_allclose(drawn.east_north, np.stack([there.easting, there.northing], axis=1), atol=1e-3)


def test_descriptions() -> None:
    """With the name of the category and the number of points; see also `test_consistency`."""
    buildings = geopandas.GeoDataFrame({"building_id": ["a", "<"]}, geometry=[house(0, 0)] * 2, crs="EPSG:32633")
    figures = [[0.15, 0.1, 0.05, 0.7]] * 2, [1.84, 0], [1.1, 0], [2.94, 0], "1", [0.93, 0]
    mechanism = [[0.05, 0.9, 0.05, 0, 0, 0]] * 2
    table = table_of(buildings, ["ok", STATUSES[1]], [1400, 1], *figures, mechanism)
    judged, abstained = (
        re.findall("<div>(.*?)</div>", description(row, why))
        for row, why in zip(table.itertuples(), ["", "1 < 2"], strict=True)
    )
    severity = "Severity 1.84 permille (90 % interval 1.10 to 2.94)"
    where = ["Quadrant NE or SE", "Fails like: end"]
    assert judged == ["<b>a</b>", "Damaged with 93 %", "Category 3, moderate", severity, *where, "1,400 points"]
    assert abstained == ["<b>&lt;</b>", "Damaged with &lt; 1 %", "Not judged: 1 &lt; 2", "1 point"]


def test_directions_are_given_against_true_north() -> None:
    centre = np.array([[4_321_000.0, 3_210_000.0], [2_720_000.0, 1_950_000.0]])  # the middle of EPSG:3035, and Lisbon
    there = east_angles_deg(centre, np.zeros(2), pyproj.CRS("EPSG:3035"))
    assert there[0] == pytest.approx(0, abs=0.01)
    assert abs(there[1]) == pytest.approx(14, abs=1)
    assert east_angles_deg(centre[:1], np.array([0.5]), pyproj.CRS("EPSG:3035"))[0] == pytest.approx(
        np.degrees(0.5), abs=0.2
    )
