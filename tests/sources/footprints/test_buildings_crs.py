"""Footprints in many CRSs, in whatever unit and order of axes, end up at one place."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import geopandas
import numpy as np
import pyarrow.parquet as pq
import pytest
import rasterio
import shapely
import yaml

from plumbline.params import Footprints, Ingest
from plumbline.sources.footprints import area as area_module
from plumbline.sources.footprints.area import Area
from plumbline.sources.footprints.buildings import read_buildings, reprojected
from tests.refusals import refuses, warned
from tests.sources.footprints.drawn import CRS, SQUARE, assert_same_ground, geojson, in_degrees, polygon, save
from tests.sources.make import squares, unless_refused, zipped


def named(name):
    return {"type": "name", "properties": {"name": name}}


def drawn(path, crs=None, first=True, properties=None, ring=SQUARE):
    """One square, with a `crs` before or after the features."""
    member = {} if crs is None else {"crs": crs}
    return geojson(path, [polygon(ring)], [properties or {}], **{"before" if first else "after": member})


@pytest.mark.parametrize(
    ("code", "place"),
    [
        pytest.param(4326, (13.15, 38.7), id="degrees"),
        pytest.param(4979, (13.15, 38.7), id="degrees with heights"),
        pytest.param(3035, (13.15, 38.7), id="northing first"),
        pytest.param(3857, (13.15, 38.7), id="web mercator"),
        pytest.param(2056, (7.44, 46.95), id="Swiss"),
        pytest.param(31468, (11.5, 48.1), id="Gauss-Krueger, northing first"),
        pytest.param(2263, (-74.0, 40.7), id="New York, US feet"),
        pytest.param(27572, (2.3, 48.9), id="Lambert of Paris, grads"),
    ],
)
def test_the_same_ground_in_any_crs_is_at_the_same_place(tmp_path, code, place):
    point = geopandas.GeoSeries([shapely.Point(place)], crs=4326)
    zone = point.estimate_utm_crs()
    here = geopandas.GeoDataFrame(geometry=point.to_crs(zone).buffer(12), crs=zone)
    there = here.to_crs(code)
    if code == 4979:
        there = there.set_geometry(shapely.force_3d(there.geometry.to_numpy(), 80.0), crs=code)
    read = read_buildings(save(there, tmp_path / "f.parquet"), f"EPSG:{zone.to_epsg()}")
    assert read.attrs["source_crs"] == f"EPSG:{code}"
    assert not read.has_z.any()
    assert read.geometry.iloc[0].symmetric_difference(here.geometry.iloc[0]).area < 0.5


def test_the_origin_of_the_swiss_grid_is_the_old_observatory_of_bern(tmp_path):
    # swisstopo: E 2 600 000, N 1 200 000 is 7 26' 22.50" east, 46 57' 08.66" north on the Bessel ellipsoid (CH1903+),
    # which WGS 84 has some 100 m off.
    square = geopandas.GeoDataFrame(geometry=[shapely.box(2_599_995, 1_199_995, 2_600_005, 1_200_005)], crs=2056)
    read = read_buildings(save(square, tmp_path / "f.gpkg"), "EPSG:32632")
    degrees = read.to_crs(4326).geometry.iloc[0].centroid
    assert degrees.x == pytest.approx(7 + 26 / 60 + 22.5 / 3600, abs=2e-3)
    assert degrees.y == pytest.approx(46 + 57 / 60 + 8.66 / 3600, abs=2e-3)


@pytest.mark.parametrize("name", [None, "urn:ogc:def:crs:OGC:1.3:CRS84", "urn:ogc:def:crs:EPSG::4326", "EPSG:4326"])
def test_a_geojson_has_the_longitude_first_whatever_it_calls_its_degrees(tmp_path, name):
    path = drawn(tmp_path / "f.geojson", None if name is None else named(name))
    east, north = read_buildings(path, CRS).total_bounds[:2]
    assert (east, north) == (pytest.approx(4_596_718.6, abs=1), pytest.approx(1_740_669.9, abs=1))


def test_a_gml_has_the_latitude_first_where_its_crs_says_so(tmp_path):
    in_degrees().to_file(tmp_path / "f.gml", driver="GML")
    assert float((tmp_path / "f.gml").read_text().partition("<gml:posList>")[2].split()[0]) > 30  # the latitude
    assert_same_ground(read_buildings(tmp_path / "f.gml", CRS), squares())


UNKNOWN = [named("EPSG:999999"), named("moon"), named(""), named(None), "EPSG:3035", 3035, [], {"type": "name"}]
UNKNOWN.append({"type": "link", "properties": {"href": "a.prj"}})


@pytest.mark.parametrize(("crs", "first"), [*((crs, True) for crs in UNKNOWN), (named("moon"), False)], ids=str)
def test_a_geojson_with_a_crs_that_is_not_known_is_refused(tmp_path, crs, first):
    with refuses("geojson.unknown_crs", "f.geojson: crs "):
        read_buildings(drawn(tmp_path / "f.geojson", crs, first), CRS)


@pytest.mark.parametrize("first", [True, False])
def test_a_crs_that_is_something_within_a_feature_is_none_of_the_collection(tmp_path, first):
    held = {"crs": "moon", "note": {"crs": {"a": [1]}}}
    path = drawn(tmp_path / "f.geojson", None if first else named("EPSG:4326"), first, held)
    assert len(read_buildings(path, CRS)) == 1
    path = drawn(tmp_path / "g.geojson", named("moon"), first, held)
    assert unless_refused(lambda: read_buildings(path, CRS), path) is None


@pytest.mark.parametrize(
    ("name", "scale", "key", "place"),
    [
        ("EPSG:5701", 1, "crs.wrong_kind", "EPSG:5701"),
        (None, 1e5, "footprints.no_crs", "cannot be degrees"),
        ("EPSG:3035", 1, "footprints.no_area", "feature 1 "),
    ],
    ids=["heights only", "metres as degrees", "degrees as metres"],
)
def test_a_crs_that_cannot_be_that_of_the_coordinates_is_refused(tmp_path, name, scale, key, place):
    ring = (np.array(SQUARE) * scale).tolist()
    with refuses(key, "f.geojson", place):
        read_buildings(drawn(tmp_path / "f.geojson", name and named(name), ring=ring), CRS)


BOLOGNA = shapely.box(11.34, 44.49, 11.341, 44.491)


def frame(crs):
    return geopandas.GeoDataFrame({"n": [7]}, geometry=[BOLOGNA], crs="EPSG:4326").to_crs(crs)


@pytest.mark.parametrize(
    ("crs", "wanted"),
    [*((f"EPSG:{code}", "EPSG:3035") for code in (23032, 4230, 3003, 25832, 3857)), ("EPSG:4230", "EPSG:32632")],
)
def test_a_place_stays_where_it_is(crs, wanted):
    """From ED50 to EPSG:3035 PROJ by itself is 129 m off here."""
    moved, direct = reprojected("f", frame(crs), wanted), frame(wanted)
    assert (moved.crs, moved["n"].tolist()) == (direct.crs, [7])
    apart = shapely.get_coordinates(moved.geometry) - shapely.get_coordinates(direct.geometry)
    assert np.abs(apart).max() < 10  # metres, by which the ways that there are differ


def test_without_a_way_the_datum_is_taken_for_the_other_with_a_warning(caplog):
    """A CRS of an ellipsoid alone, as old files have it, says nothing of a datum."""
    house = shapely.box(6e5, 5e6, 6e5 + 20, 5e6 + 10)
    there = geopandas.GeoDataFrame(geometry=[house], crs="+proj=utm +zone=32 +ellps=intl")
    moved = reprojected("f.gpkg", there, "EPSG:3035")
    assert warned(caplog, "crs.approximate_datum", "f.gpkg", "EPSG:3035", "100 m")
    assert np.isfinite(moved.total_bounds).all()


@pytest.mark.parametrize(
    ("code", "place", "wanted", "signs"),
    [
        pytest.param(27700, (-1.3, 52.6), 3035, ("3 m", "0.03 m", "--file uk_os_OSTN15_NTv2"), id="British"),
        pytest.param(31467, (9, 50), 32632, ("3 m", "0.1 m", "--file de_hvbg_hessen"), id="Hesse, not all of Germany"),
        pytest.param(27572, (2.3, 48.8), 2154, ("3 m", "1 m", "--file fr_ign"), id="French"),
        pytest.param(3003, (9, 45), 32632, ("4 m", "source offers"), id="Italian, for which there is no grid"),
        pytest.param(27572, (2.3, 48.8), 32631, ("2 m", "1 m", "--file fr_ign"), id="French, through ETRS89"),
        pytest.param(4267, (-100, 40), 32614, ("7 m", "--file us_noaa_conus.tif"), id="American"),
        pytest.param(4267, (-74, 40.7), 32618, ("10 m", "--file us_noaa_conus.tif"), id="New York, not Canada's"),
        pytest.param(7855, (145, -37), 32755, None, id="Australian of today"),
        pytest.param(6318, (-95, 40), 32615, None, id="American of today"),
        pytest.param(4549, (120, 30), 32650, None, id="Chinese, for which PROJ has no transformation"),
        pytest.param(9990, (10, 50), 32632, None, id="ITRF2020"),
        pytest.param(29902, (-8, 53), 32629, None, id="Irish, for which there is no grid, known to 2 m"),
        pytest.param(28992, (5, 52), 3035, None, id="Dutch, known to 0.25 m without its grid"),
        pytest.param(25832, (9, 50), 32632, None, id="ETRS89 and WGS 84"),
        pytest.param(2056, (8, 47), 32632, None, id="Swiss, as well known as WGS 84 itself"),
    ],
)
def test_a_datum_whose_grid_is_missing_is_warned_of_with_its_error_and_the_command(caplog, code, place, wanted, signs):
    here = geopandas.GeoDataFrame(geometry=[shapely.Point(place).buffer(1e-4)], crs=4326)
    there = here.to_crs(code)
    there.loc[1, "geometry"] = shapely.box(0, 0, 1, 1)  # a fault of a file, which says nothing of its place
    reprojected("f.gpkg", there[::-1], f"EPSG:{wanted}")
    if signs is None:
        assert not warned(caplog, "crs.approximate_datum")
    else:
        assert len(warned(caplog, "crs.approximate_datum", "f.gpkg", f"EPSG:{wanted}", *signs)) == 1


GRID_CODE = """
import geopandas, shapely
from plumbline.sources.footprints.buildings import reprojected
ntf = geopandas.GeoDataFrame(geometry=[shapely.Point(2.3, 48.8)], crs=4275)
moved = reprojected("f", ntf.to_crs(27572), "EPSG:32631")
print(moved.distance(ntf.set_crs(4326, allow_override=True).to_crs(32631)).max())
"""


def test_an_installed_grid_that_leads_to_etrs89_is_used_for_a_plane_of_wgs_84(tmp_path):
    """The grid of this test takes degrees of NTF as those of ETRS89: 50 m beside those of WGS 84."""
    about = {"driver": "GTiff", "width": 30, "height": 20, "count": 2, "dtype": "float32", "crs": "EPSG:4275"}
    corner = rasterio.transform.from_origin(-6, 53, 1, 1)
    with rasterio.open(tmp_path / "fr_ign_ntf_r93.tif", "w", **about, transform=corner) as grid:
        grid.write(np.zeros((2, 20, 30), np.float32))
        grid.descriptions, grid.units = ("latitude_offset", "longitude_offset"), ("arc-second",) * 2
        grid.update_tags(TYPE="HORIZONTAL_OFFSET", AREA_OR_POINT="Point")
    environment = os.environ | {"PROJ_DATA": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", GRID_CODE], env=environment, capture_output=True, text=True, check=True
    )
    assert float(ended.stdout) < 0.1


def test_shapes_without_coordinates_have_no_place_to_be_warned_of():
    empty = geopandas.GeoDataFrame(geometry=[shapely.Polygon()], crs=27700)
    assert reprojected("f.gpkg", empty, "EPSG:3035").crs == "EPSG:3035"


def unnamed(path, table, kind):
    """Write features without a `crs`, as a collection, as lines, with a `crs` of null, or zipped."""
    features = json.loads(table.to_json(drop_id=True))["features"]
    text = json.dumps({"type": "FeatureCollection", **({"crs": None} if kind == "null" else {}), "features": features})
    if kind == "zip":
        return zipped(path.with_suffix(".zip"), {"f.geojson": text})
    path.write_text("\n".join(map(json.dumps, features)) if kind == "lines" else text)
    return path


@pytest.fixture
def near(monkeypatch, request):
    """Where the test is of a large file: the area of the points."""
    if request.getfixturevalue("kind") != "large":
        return None
    monkeypatch.setattr(area_module, "LARGE_BYTES", 0)
    monkeypatch.setattr(area_module, "LARGE_PACKED_BYTES", 0)
    return Area(tuple(squares().total_bounds), CRS)


@pytest.mark.parametrize(
    ("kind", "code"),
    [*((kind, "EPSG:3035") for kind in ("collection", "lines", "null", "zip", "large")), ("collection", "EPSG:2263")],
)
def test_a_stated_crs_counts_where_a_geojson_without_one_cannot_be_in_degrees(tmp_path, kind, code, near):
    """The parser of GDAL says WGS 84 of each, the file does not."""
    path = unnamed(tmp_path / "f.geojson", squares().to_crs(code), kind)
    with refuses("footprints.no_crs", path, "cannot be degrees") as refused:
        read_buildings(path, CRS, area=near)
    line = str(refused.value).partition("\n")[2].replace("EPSG:32633", code)
    stated = Ingest.model_validate(yaml.safe_load(line)["ingest"]).footprints
    assert_same_ground(read_buildings(path, CRS, stated=stated, area=near))


def test_a_stated_crs_does_not_count_for_degrees_and_one_lost_feature_decides_nothing(tmp_path, caplog):
    degrees, stated = in_degrees(), {"*": Footprints(crs="EPSG:25832")}
    path = unnamed(tmp_path / "f.geojson", degrees, "collection")
    assert_same_ground(read_buildings(path, CRS, stated=stated))
    assert warned(caplog, "footprints.unused_crs", "f.geojson", "EPSG:25832", "WGS 84")
    degrees.loc[0, "geometry"] = shapely.box(1e6, 1e6, 2e6, 2e6)
    with refuses("crs.not_degrees", "f.geojson"):
        read_buildings(unnamed(path, degrees, "collection"), CRS, stated=stated)


@pytest.mark.filterwarnings("ignore:Column names longer", "ignore:Normalized/laundered")
@pytest.mark.parametrize(
    ("name", "crs", "undefined"),
    [("f.gpkg", CRS, -1), ("f.gpkg", "EPSG:4326", 0), ("f.shp", CRS, None)],
    ids=["cartesian", "degrees", "local grid"],
)
def test_a_stated_crs_counts_where_the_file_s_own_says_no_place(tmp_path, name, crs, undefined):
    """GeoPackage has two undefined ones, MapInfo and others a grid of their own."""
    path = save(squares().to_crs(crs), tmp_path / name)
    if undefined is None:
        path.with_suffix(".prj").write_text('LOCAL_CS["Nonearth",UNIT["Meter",1.0]]')
    else:
        with closing(sqlite3.connect(path)) as connection, connection:
            for table in ("gpkg_geometry_columns", "gpkg_contents"):
                connection.execute(f"UPDATE {table} SET srs_id = {undefined}")
    if crs == CRS:
        with refuses("footprints.no_crs", path, "cannot be degrees"):
            read_buildings(path, CRS)
    assert_same_ground(read_buildings(path, CRS, stated={"*": Footprints(crs=crs)}), squares())


@pytest.mark.parametrize("kind", ["small", "large"])
def test_a_geoparquet_that_names_no_crs_is_in_degrees_only_if_it_may_be(tmp_path, caplog, kind, near):
    path = tmp_path / "f.parquet"
    for crs in (CRS, "EPSG:4326"):
        squares().to_crs(crs).to_parquet(path)
        table = pq.read_table(path)
        about = json.loads(table.schema.metadata[b"geo"])
        del about["columns"]["geometry"]["crs"]
        pq.write_table(table.replace_schema_metadata({b"geo": json.dumps(about)}), path)
        if crs == CRS:
            with refuses("footprints.no_crs", path, "cannot be degrees"):
                read_buildings(path, CRS, area=near)
        assert_same_ground(read_buildings(path, CRS, stated={"*": Footprints(crs=CRS)}, area=near))
    assert warned(caplog, "footprints.unused_crs", "f.parquet", "GeoParquet", "WGS 84")
