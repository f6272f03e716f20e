from dataclasses import replace

import numpy as np
import pytest
from pyproj import Transformer

from plumbline.sources.checks import check_overlap
from tests.refusals import refuses, warned, warning_keys
from tests.sources.make import EAST, NORTH, squares, track


@pytest.mark.parametrize(("gap", "overlaps"), [(49.9, True), (50.1, False)])
def test_points_may_be_50_m_from_the_nearest_footprint(gap, overlaps):
    points = replace(track(1), easting=np.array([EAST - 4 - gap]), northing=np.array([NORTH]))
    if overlaps:
        check_overlap([points], squares(), "a.csv", "f.gpkg")
    else:
        with refuses("points.no_overlap", "within 50 m"):
            check_overlap([points], squares(), "a.csv", "f.gpkg")


def test_a_point_amid_the_extent_but_far_from_every_footprint_does_not_count():
    corners = squares().iloc[:2].copy()
    corners.geometry = [corners.geometry.iloc[0], corners.geometry.iloc[1].buffer(0)]
    corners.geometry = corners.geometry.translate().where([True, False], corners.geometry.translate(900, 900))
    points = replace(track(1), easting=np.array([EAST + 450]), northing=np.array([NORTH + 450]))
    with refuses("points.no_overlap", "within 50 m"):
        check_overlap([points], corners, "a.csv", "f.gpkg")


def test_the_refusal_names_both_files_extents_and_crss():
    far = replace(track(2), easting=np.array([4.0e6, 4.1e6]), northing=np.array([3.0e6, 3.1e6]))
    buildings = squares()
    buildings.attrs["source_crs"] = "EPSG:4326"
    with refuses("points.no_overlap") as caught:
        check_overlap([far], buildings, "a.csv", "f.geojson")
    points, footprints = str(caught.value).splitlines()[1:3]
    assert "a.csv: easting 4000000 to 4100000 m, northing 3000000 to 3100000 m in EPSG:3035" in points
    assert "f.geojson (EPSG:4326): easting 4597996 to 4598024 m" in footprints
    # North-west of the projection's middle, the southern edge is turned: its west is not that of the box.
    west, east = (float(text) for text in points.split("about ")[1].split(" degrees east")[0].split(" to "))
    assert west < east
    assert "13.1" in footprints
    assert "38.6" in footprints


def test_a_crs_that_is_chosen_for_a_track_elsewhere_is_refused():
    """Latitude and longitude exchanged: the city would be drawn in a zone of another continent."""
    buildings = squares().to_crs("EPSG:32637")
    middle = buildings.centroid.iloc[:1]
    near = replace(track(1), crs="EPSG:32637", easting=middle.x.to_numpy(), northing=middle.y.to_numpy())
    far = replace(track(2, "far"), crs="EPSG:32637", easting=np.array([4.0e5, 4.1e5]))
    with refuses("crs.chosen_elsewhere", "far: ", "EPSG:32637 draws a metre there as 1."):
        check_overlap([far, near], buildings, "a.csv, b.csv", "f.gpkg")
    with refuses("crs.distorted", "ingest.crs: EPSG:32637", "EPSG:32633"):
        check_overlap([near], buildings, "a.csv", "f.gpkg", asked_crs="EPSG:32637")
    check_overlap([near], buildings, "a.csv", "f.gpkg")  # its own, which was looked at when it was read


@pytest.mark.parametrize(("longitude", "turn"), [(13.2, None), (-9.1, "14 degrees"), (-21.9, "28 degrees")])
def test_a_north_that_is_none_is_said_with_what_to_write(caplog, longitude, turn):
    latitude, zone = (64.1, 32627) if longitude < -20 else (38.7, 32629)
    x, y = Transformer.from_crs(4326, 3035, always_xy=True).transform(longitude, latitude)
    buildings = squares()
    buildings.geometry = buildings.geometry.translate(x - EAST, y - NORTH)
    points = track()
    points = replace(points, easting=points.easting + x - EAST, northing=points.northing + y - NORTH)
    check_overlap([points], buildings, "a.csv", "f.gpkg")
    assert warning_keys(caplog) == ["crs.other_north"] * bool(turn)
    assert not turn or warned(caplog, "crs.other_north", "f.gpkg", turn, f"ingest: {{crs: EPSG:{zone}}}")


def test_one_track_elsewhere_is_a_warning(caplog):
    far = replace(track(2, "far"), easting=np.array([4.0e6, 4.1e6]))
    check_overlap([track(), far], squares(), "a.csv, b.csv", "f.gpkg")
    assert warned(caplog, "points.track_elsewhere", "far: ", "50 m")
