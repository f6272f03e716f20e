import numpy as np
import pytest
from pyproj import Geod, Transformer

from plumbline.sources.crs import projection, typical_box, utm_zone
from plumbline.sources.points.track import los_from_azimuth, los_from_heading
from tests.refusals import refuses, warned, warning_keys


@pytest.mark.parametrize(
    ("longitude", "latitude", "zone"),
    [
        (4.9, 52.3, "EPSG:32631"),
        (-58.4, -34.6, "EPSG:32721"),
        (180, 1, "EPSG:32601"),
        (6, 0, "EPSG:32632"),
    ],
)
def test_zones_of_utm(longitude, latitude, zone):
    assert utm_zone("f", longitude, latitude) == zone


def test_metres_stay_what_they_are_unless_the_city_has_another_crs():
    plane = projection("f", "epsg:28992", None, lambda: None)
    assert (plane.crs, plane.transformer) == ("EPSG:28992", None)
    assert projection("f", "EPSG:28992", "epsg:28992", lambda: None).transformer is None
    x, y = projection("f", "EPSG:28992", "EPSG:32631", lambda: None)(np.array([155_000.0]), np.array([463_000.0]))
    assert 630_000 < x[0] < 700_000
    assert 5_750_000 < y[0] < 5_800_000


def test_mintpy_s_azimuth_of_a_right_looking_satellite_is_90_degrees_less_its_heading():
    heading = np.linspace(-360, 360, 25)
    np.testing.assert_allclose(los_from_azimuth(40, 90 - heading), los_from_heading(40, heading), atol=1e-12)
    np.testing.assert_allclose(los_from_azimuth(90, 0), [0, 1, 0], atol=1e-12)  # from north, ...
    np.testing.assert_allclose(los_from_azimuth(90, 90), [-1, 0, 0], atol=1e-12)  # ... anti-clockwise


def around(crs, longitude, latitude):
    x, y = Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform(longitude, latitude)
    return lambda: (x - 1000, y - 1000, x + 1000, y + 1000)


@pytest.mark.parametrize(
    ("crs", "latitude", "stretch"), [("EPSG:3857", 60, "2.00"), ("EPSG:3857", 30, "1.15"), ("EPSG:6933", 60, "1.73")]
)
def test_metres_that_are_none_on_the_ground_go_to_utm(caplog, crs, latitude, stretch):
    with caplog.at_level("INFO", "plumbline"):
        plane = projection("f", crs, None, around(crs, 11, latitude))
    assert plane.crs == "EPSG:32632"
    assert f"f: in {crs} " in caplog.text
    assert f"a metre there is drawn as {stretch} m; its points are taken to EPSG:32632" in caplog.text
    # Two minutes away, as far as on the ellipsoid.
    places = np.array([[11, latitude], [11, latitude + 1 / 30], [11 + 1 / 30, latitude]]).T
    east, north = plane(*Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform(*places))
    on_ground = Geod(ellps="WGS84").inv(*places[:, [0, 0]], *places[:, 1:])[2]
    np.testing.assert_allclose(np.hypot(east[1:] - east[0], north[1:] - north[0]), on_ground, rtol=2e-3)


@pytest.mark.parametrize(
    ("longitude", "latitude"), [(-9.1, 38.7), (-22, 64.1), (-15.4, 28.1), (31, 70.4), (26, 71.1), (33, 35), (10, 52)]
)
def test_the_crs_of_egms_is_kept_all_over_europe_and_national_grids_and_utm_beyond_its_zone(longitude, latitude):
    plane = projection("f", "EPSG:3035", None, around("EPSG:3035", longitude, latitude))
    assert (plane.crs, plane.transformer) == ("EPSG:3035", None)
    for crs, at in (("EPSG:32632", (4.5, 50)), ("EPSG:28992", (6, 53)), ("EPSG:5514", (14, 50))):
        assert projection("f", crs, None, around(crs, *at)).transformer is None


@pytest.mark.parametrize(
    ("crs", "at", "off", "zone"),
    [
        ("EPSG:2048", (18.5, -33.9), 180, "EPSG:32734"),  # South Africa: west, south
        ("EPSG:5513", (14.4, 50.1), 98, "EPSG:32633"),  # Bohemia: south, west
        ("EPSG:3413", (15.6, 78.2), 61, "EPSG:32633"),  # around the pole
    ],
)
def test_axes_that_are_not_east_and_north_go_to_utm(caplog, crs, at, off, zone):
    with caplog.at_level("INFO", "plumbline"):
        plane = projection("f", crs, None, around(crs, *at))
    assert plane.crs == zone
    assert f"the axes there are {off} degrees off east and north; its points are taken to {zone}" in caplog.text
    # A step to the east and one to the north are so in what comes of them.
    places = np.array([at, (at[0] + 1e-4, at[1]), (at[0], at[1] + 1e-4)]).T
    east, north = plane(*Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform(*places))
    assert east[1] - east[0] > 20 * abs(north[1] - north[0])
    assert north[2] - north[0] > 20 * abs(east[2] - east[0])


@pytest.mark.parametrize(
    ("longitude", "zone"),
    [([179.9, -179.9, 179.8], 60), ([-179.7, 179.9, -179.9], 1), ([180.1, 180.2, 179.9], 1)],
)
def test_on_both_sides_of_the_date_line_the_zone_is_one_of_there(caplog, longitude, zone):
    box = typical_box("f", np.array(longitude), np.full(len(longitude), -17.0))
    assert projection("f", "EPSG:4326", None, lambda: box).crs == f"EPSG:{32700 + zone}"
    assert not warning_keys(caplog)
    for known in ("EPSG:3460", "EPSG:32760", "EPSG:32701"):  # Fiji's grid, and both zones
        assert projection("f", "EPSG:4326", known, lambda: box).crs == known
    with refuses("crs.outside", "EPSG:32631"):
        projection("f", "EPSG:4326", "EPSG:32631", lambda: box)


def test_a_damaged_longitude_half_a_turn_away_does_not_choose_the_zone(caplog):
    box = typical_box("f", np.array([-178.0, *np.linspace(4.9, 5.0, 40)]), np.full(41, 52.0))
    assert projection("f", "EPSG:4326", None, lambda: box).crs == "EPSG:32631"
    assert warned(caplog, "points.outliers", "f: 1 points", "3 degrees", "longitude -178.00000")


def test_without_points_or_a_place_on_earth_metres_are_kept():
    moon = "+proj=tmerc +a=1737400 +b=1737400 +units=m +type=crs"
    assert projection("f", moon, None, lambda: (0, 0, 1, 1)).transformer is None
    assert projection("f", "EPSG:3857", None, lambda: None).transformer is None
    assert projection("f", "EPSG:32631", None, lambda: (1e30, 1e30, 1e30, 1e30)).transformer is None


@pytest.mark.parametrize("crs", ["EPSG:3995", "EPSG:3413", "EPSG:3571", "EPSG:3031", "EPSG:3408"])
def test_points_at_the_pole_of_a_projection_are_refused(crs):
    """No axis is east there; beside it, the zone of UTM or the file's own axes are."""
    with refuses("crs.no_utm_zone", "f: ", "90.00"):
        projection("f", crs, None, lambda: (-100.0, -100.0, 300.0, 100.0))
