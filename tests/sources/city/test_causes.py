"""Files of causes."""

from datetime import date

import geopandas
import pytest
import shapely
from shapely import affinity

from plumbline.params import Footprints
from plumbline.sources.city.causes import MAX_CAUSES, MOVING_AREAS, causes_of_city, read_causes
from plumbline.sources.city.window import Window
from tests.refusals import refuses

RECORD = Window(date(2020, 1, 6), date(2023, 12, 30))
EAST, NORTH = 4_321_000.0, 3_210_000.0
LINE = shapely.LineString([(EAST, NORTH), (EAST + 500, NORTH)])


def written(path, shapes, crs="EPSG:3035", **columns):
    geopandas.GeoDataFrame(columns, geometry=shapes, crs=crs).to_file(path)
    return path


def causes(path, stated=None):
    return causes_of_city(read_causes(path, stated or {}), "EPSG:3035", RECORD)


@pytest.mark.parametrize("name", ["c.gpkg", "c.shp"])
def test_lines_polygons_and_points_are_read_in_any_format_and_crs(tmp_path, name):
    for shape in (LINE, LINE.buffer(20), shapely.Point(EAST, NORTH)):
        frame = geopandas.GeoSeries([shape], crs="EPSG:3035").to_crs("EPSG:4326")
        (found,) = causes(written(tmp_path / name, frame, "EPSG:4326", name=["line 4"], reach_m=[150.0]))
        assert (found.name, found.reach_m) == ("line 4", 150.0)
        assert found.geometry.hausdorff_distance(shape) < 0.05


def test_the_moving_areas_of_a_result_are_causes(tmp_path):
    path = written(tmp_path / "result.gpkg", [shapely.Point(EAST, NORTH)], building_id=["house"])
    areas = geopandas.GeoDataFrame({"name": ["A1"]}, geometry=[LINE.buffer(20)], crs="EPSG:3035")
    areas.to_file(path, layer=MOVING_AREAS)
    assert [one.name for one in causes(path)] == ["A1"]


def test_a_result_without_moving_areas_is_refused(tmp_path):
    path = tmp_path / "result.gpkg"
    geopandas.GeoDataFrame(geometry=[LINE.buffer(20)], crs="EPSG:3035").to_file(path, layer="predictions")
    with refuses("causes.no_moving_area", "result.gpkg"):
        causes(path)


def test_cells_may_be_missing_and_parts_of_one_name_are_one_cause(tmp_path):
    parts = [LINE, affinity.translate(LINE, 500), LINE.buffer(5), LINE.centroid]
    path = written(tmp_path / "c.gpkg", parts, NAME=["tunnel", "tunnel", None, ""], reach_m=[None, "", "80", None])
    tunnel, *others = causes(path)
    reaches = [(one.name, one.reach_m) for one in (tunnel, *others)]
    assert reaches == [("tunnel", None), ("cause 3", 80.0), ("cause 4", None)]
    assert tunnel.geometry.length == pytest.approx(1000)
    assert [one.name for one in causes(written(tmp_path / "d.geojson", [LINE]))] == ["cause 1"]


def test_what_was_not_there_during_the_record_is_left_out(tmp_path, caplog):
    path = written(
        tmp_path / "c.gpkg",
        [LINE] * 4,
        name=["old", "later", "there", "open"],
        **{"from": ["2010-01-01", "2024-01-01", "2023-12-30", None], "until": ["2020-01-05", None, "2030-01-01", None]},
    )
    with caplog.at_level("INFO", "plumbline"):
        assert [one.name for one in causes(path)] == ["there", "open"]
    assert "old: left out, as it is from 2010-01-01 to 2020-01-05, and the record from 2020-01-06 to" in caplog.text
    assert "later: left out" in caplog.text


@pytest.mark.parametrize(
    ("columns", "key", "place"),
    [
        ({"reach_m": ["far"]}, "causes.wrong_reach", "reach_m 'far'"),
        ({"reach_m": [-3.0]}, "causes.wrong_reach", "reach_m '-3.0'"),
        ({"from": ["last year"]}, "window.not_a_day", "from 'last year'"),
        ({"from": ["2022-01-01"], "until": ["2021-01-01"]}, "window.reversed", "from 2022-01-01 is after until 2021"),
    ],
)
def test_a_cell_that_is_not_understood_is_refused_with_its_place(tmp_path, columns, key, place):
    with refuses(key, f"c.geojson: feature 1: {place}"):
        causes(written(tmp_path / "c.geojson", [LINE], **columns))


@pytest.mark.filterwarnings("ignore:'crs' was not provided")
def test_files_that_are_none_are_refused(tmp_path):
    with refuses("file.missing", "none.gpkg"):
        causes(tmp_path / "none.gpkg")
    with refuses("causes.none", "empty.gpkg"):
        causes(written(tmp_path / "empty.gpkg", [shapely.Point()]))
    with refuses("causes.too_many", "many.gpkg", MAX_CAUSES):
        causes(written(tmp_path / "many.gpkg", [LINE] * (MAX_CAUSES + 1)))
    bare = written(tmp_path / "bare.gpkg", [LINE], crs=None)
    with refuses("footprints.no_crs", "bare.gpkg"):
        causes(bare)
    assert len(causes(bare, {"bare.gpkg": Footprints(crs="EPSG:3035")})) == 1


def test_the_place_of_swapped_coordinates_is_known_where_there_is_one(tmp_path):
    degrees = geopandas.GeoSeries([LINE], crs="EPSG:3035").to_crs("EPSG:4326")
    swapped = geopandas.GeoSeries(shapely.transform(degrees.to_numpy(), lambda at: at[:, ::-1]), crs="EPSG:4326")
    (found,) = causes(written(tmp_path / "c.geojson", swapped, "EPSG:4326"))
    assert found.geometry.distance(LINE) > 1e6
    assert found.swapped.hausdorff_distance(LINE) < 0.05
    (found,) = causes(written(tmp_path / "d.geojson", [shapely.Point(121, 31)], "EPSG:4326"))
    assert found.swapped is None
