"""Of files too large to be read whole, only what lies where the points are is read; where a moved city stands."""

import json
import os
import sqlite3
import zipfile
from contextlib import closing

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from pyproj import Transformer

from plumbline.params import Footprints
from plumbline.sources.footprints import area as area_module
from plumbline.sources.footprints.area import MARGIN_M, Area, GroundCentres, ground_of, touching
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.footprints.shapefile import has_stale_index
from tests.refusals import refuses, warned
from tests.sources.footprints.drawn import CRS, osm_xml, save
from tests.sources.make import EAST, FEWER, NORTH, squares, zipped

HERE = Area.around(np.array([[EAST, NORTH]]), CRS)


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch):
    monkeypatch.setattr(area_module, "LARGE_BYTES", 0)
    monkeypatch.setattr(area_module, "LARGE_PACKED_BYTES", 0)


def near_and_far() -> geopandas.GeoDataFrame:
    """Three buildings where the points are, and three 5 km beside them."""
    near = squares()
    far = near.assign(building_id=["F0", "F1", "F2"]).set_geometry(near.translate(5_000))
    both = geopandas.GeoDataFrame(geopandas.pd.concat([far, near], ignore_index=True), crs=near.crs)
    return both.to_crs("EPSG:4326")


KINDS = ["geojson", "geojsonl", "gpkg", "shp", "fgb", "csv.gz", "parquet", "wkb.parquet", "covering.parquet"]


@pytest.mark.filterwarnings("ignore:Column names longer", "ignore:Normalized/laundered")
@pytest.mark.parametrize("kind", KINDS)
def test_only_what_reaches_into_the_area_is_read(tmp_path, kind, caplog):
    path, frame = tmp_path / f"f.{kind}", near_and_far()
    if kind == "wkb.parquet":
        columns = {"building_id": frame["building_id"].to_list(), "geom": shapely.to_wkb(frame.geometry)}
        pq.write_table(pa.table(columns), path)
    else:
        save(frame, path)
    stated = {"*": Footprints(crs="EPSG:4326")} if kind in ("csv.gz", "wkb.parquet") else None
    read = read_buildings(path, CRS, stated=stated, area=HERE)
    assert sorted(read["building_id"]) == ["H0", "H1", "H2"]
    assert warned(caplog, "footprints.read_by_area", path, "3 features")
    assert sorted(read_buildings(path, CRS, stated=stated)["building_id"]) == ["F0", "F1", "F2", "H0", "H1", "H2"]


def move_without_index(database):
    """A far building is moved to the place of a near one, and the index does not know it."""
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rtree_f_geom_update%'").fetchall():
        database.execute(f"DROP TRIGGER {name}")
    database.execute("UPDATE f SET geom = (SELECT geom FROM f WHERE building_id = 'H0') WHERE building_id = 'F0'")
    database.execute("DELETE FROM f WHERE building_id = 'H0'")


def remove_from_index(database):
    """The index has all triggers, but lacks a near building."""
    database.execute("DELETE FROM rtree_f_geom WHERE id = (SELECT fid FROM f WHERE building_id = 'H0')")


@pytest.mark.parametrize(("spoil", "first"), [(move_without_index, "F0"), (remove_from_index, "H0")])
@pytest.mark.parametrize("is_packed", [False, True])
def test_an_index_that_was_not_kept_is_not_used(tmp_path, spoil, first, is_packed, caplog):
    path = save(near_and_far(), tmp_path / "f.gpkg")
    read_buildings(path, CRS, area=HERE)
    assert not warned(caplog, "footprints.stale_index")
    with closing(sqlite3.connect(path)) as database:
        spoil(database)
        database.commit()
    path = zipped(tmp_path / "f.zip", {"f.gpkg": path.read_bytes()}) if is_packed else path
    read = read_buildings(path, CRS, area=HERE)
    assert sorted(read["building_id"]) == [first, "H1", "H2"]
    assert warned(caplog, "footprints.stale_index", path.name)


INDEX_STARTS = {".qix": b"SQT\1\1\0\0\0" + (6).to_bytes(4, "little"), ".sbn": bytes(28) + (6).to_bytes(4, "big")}
"""Spatial index -> its bytes up to the number of outlines, which is right."""


@pytest.mark.filterwarnings("ignore:Column names longer", "ignore:Normalized/laundered")
@pytest.mark.parametrize("suffix", INDEX_STARTS)
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(("start", "older_s"), [(None, 4000), (bytes(32), 0)], ids=["older", "other number"])
def test_an_index_that_was_not_kept_with_a_shapefile_is_not_used(tmp_path, suffix, is_packed, start, older_s, caplog):
    save(near_and_far(), tmp_path / "f.shp")
    index, written = tmp_path / f"f{suffix}", (tmp_path / "f.shp").stat().st_mtime
    index.write_bytes(start or INDEX_STARTS[suffix])
    os.utime(index, (written - older_s, written - older_s))
    path = tmp_path / "f.shp"
    if is_packed:
        path = tmp_path / "f.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for part in sorted(tmp_path.glob("f.[!z]*")):
                archive.write(part, f"deep/{part.name}")
    assert len(read_buildings(path, CRS, area=HERE)) == 3
    assert warned(caplog, "footprints.stale_index", path.name)


@pytest.mark.filterwarnings("ignore:Column names longer", "ignore:Normalized/laundered")
@pytest.mark.parametrize("suffix", INDEX_STARTS)
def test_the_parts_of_a_shapefile_may_be_copied_one_after_the_other(tmp_path, suffix):
    save(near_and_far(), tmp_path / "f.shp")
    written = (tmp_path / "f.shp").stat().st_mtime
    (tmp_path / f"f{suffix}").write_bytes(INDEX_STARTS[suffix])
    os.utime(tmp_path / f"f{suffix}", (written - 60, written - 60))
    assert not has_stale_index(tmp_path / "f.shp")


def test_of_openstreetmap_too(tmp_path):
    nodes, ways = [], []
    for number, corners in enumerate(shapely.get_coordinates(shape) for shape in near_and_far().geometry):
        first = 1 + 4 * number
        nodes += [(first + corner, lat, lon) for corner, (lon, lat) in enumerate(corners[:4])]
        ways.append((number, [first, first + 1, first + 2, first + 3, first], {"building": "yes"}))
    (tmp_path / "f.osm").write_text(osm_xml(nodes, ways))
    assert sorted(read_buildings(tmp_path / "f.osm", CRS, area=HERE)["building_id"]) == ["way/3", "way/4", "way/5"]


def test_a_file_of_another_place_is_refused(tmp_path):
    elsewhere = Area.around(np.array([[EAST + 90_000, NORTH]]), CRS)
    with refuses("footprints.none_near_points", "f.gpkg", "500 m"):
        read_buildings(save(near_and_far(), tmp_path / "f.gpkg"), CRS, area=elsewhere)


def test_a_small_file_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(area_module, "LARGE_BYTES", 2**28)
    assert len(read_buildings(save(near_and_far(), tmp_path / "f.gpkg"), CRS, area=HERE)) == 6


def test_large_ids_beside_a_gap_stay_what_they_are(tmp_path):
    features = json.loads(near_and_far().drop(columns="building_id").to_json())
    for number, feature in enumerate(features["features"]):
        feature["properties"]["number"] = None if number == 3 else 2**60 + number
    (tmp_path / "f.geojson").write_text(json.dumps(features))
    read = read_buildings(tmp_path / "f.geojson", CRS, id_column="number", area=HERE)
    assert read["building_id"].tolist()[1:] == [str(2**60 + 4), str(2**60 + 5)]


def test_points_without_a_place_have_no_area():
    assert Area.around(np.array([[np.nan, 1.0]]), CRS) is None
    assert Area.around(np.zeros((0, 2)), CRS) is None


def test_across_the_180th_meridian_there_is_no_one_box():
    assert (
        Area.around(np.array([[500_000.0, 7_000_000.0]]), "EPSG:32601").bounds_in(pyproj.CRS("EPSG:4326")) is not None
    )
    edge = Transformer.from_crs("EPSG:4326", "EPSG:32601", always_xy=True).transform(180.0, 0.0)
    assert Area.around(np.array([edge]), "EPSG:32601").bounds_in(pyproj.CRS("EPSG:4326")) is None


@FEWER
@given(
    east=st.floats(4_000_000, 4_900_000),
    north=st.floats(2_000_000, 3_500_000),
    crs=st.sampled_from(["EPSG:4326", "EPSG:25832", "EPSG:3857", "EPSG:4258"]),
)
def test_whatever_lies_at_a_point_touches_the_area_in_any_crs(east, north, crs):
    area = Area.around(np.array([[east, north]]), CRS)
    around = shapely.box(east - MARGIN_M, north - MARGIN_M, east + MARGIN_M, north + MARGIN_M)
    way = Transformer.from_crs(CRS, crs, always_xy=True)
    moved = shapely.transform(np.array([shapely.segmentize(around, 50)], object), way.transform, interleaved=False)
    bounds = area.bounds_in(pyproj.CRS(crs))
    slack = 1e-4 * max(bounds[2] - bounds[0], bounds[3] - bounds[1])
    west, south, east_, north_ = shapely.bounds(moved[0])
    assert bounds[0] - slack <= west
    assert bounds[1] - slack <= south
    assert east_ <= bounds[2] + slack
    assert north_ <= bounds[3] + slack
    assert touching(moved, bounds).all()
    assert not touching(np.array([None], object), bounds).any()


@pytest.mark.parametrize(("crs", "latitude"), [("EPSG:3995", 90), ("EPSG:3413", 90), ("EPSG:3031", -90)])
def test_an_area_about_a_pole_reaches_all_around(crs, latitude):
    found = Area.around(np.zeros((1, 2)), crs).bounds_in(pyproj.CRS(4326))
    assert (found[0], found[2]) == (-180, 180)
    assert latitude in (found[1], found[3])


THERE = "EPSG:32756"


def buildings(**columns):
    boxes = shapely.box([0, 10, 20], 0, [4, 14, 24], 8)
    return geopandas.GeoDataFrame({"building_id": list("abc"), **columns}, geometry=boxes, crs=CRS)


def moved_city(**changes):
    columns = {"ground_crs": THERE, "ground_easting": [1.0, 2.0, 3.0], "ground_northing": [4.0, 5.0, 6.5]}
    return buildings(**(columns | changes))


def test_a_city_that_was_not_moved_stands_where_it_lies():
    found = ground_of(buildings(), CRS, "f")
    assert found.crs == CRS
    np.testing.assert_array_equal(found.centre, [[2, 4], [12, 4], [22, 4]])
    incomplete = moved_city().drop(columns="ground_crs")
    np.testing.assert_array_equal(ground_of(incomplete, CRS, "f").centre, found.centre)


def test_a_moved_city_stands_where_its_columns_say():
    found = ground_of(moved_city(), CRS, "f")
    assert isinstance(found, GroundCentres)
    assert found.crs == THERE
    np.testing.assert_array_equal(found.centre, [[1, 4], [2, 5], [3, 6.5]])


@pytest.mark.parametrize(
    ("changes", "key", "places"),
    [
        ({"ground_crs": [THERE, THERE, CRS]}, "ground.not_one_crs", ["ground_crs: EPSG:3035, EPSG:32756"]),
        ({"ground_crs": "EPSG:4326"}, "ground.not_one_crs", ["ground_crs: EPSG:4326"]),
        ({"ground_crs": "nowhere"}, "ground.not_one_crs", ["ground_crs: nowhere"]),
        ({"ground_crs": None}, "ground.not_one_crs", ["ground_crs: "]),
        ({"ground_easting": [1.0, np.nan, 2.0]}, "ground.no_place", ["ground_easting", "nan, 5.0", "row 2"]),
        ({"ground_northing": ["1", "2", "x"]}, "ground.no_place", ["ground_northing", "3.0, x", "row 3"]),
        ({"ground_northing": [1.0, np.inf, 2.0]}, "ground.no_place", ["ground_northing", "2.0, inf", "row 2"]),
    ],
)
def test_columns_that_say_no_place_are_refused(changes, key, places):
    with refuses(key, "f of town: column", *places):
        ground_of(moved_city(**changes), CRS, "f of town")
