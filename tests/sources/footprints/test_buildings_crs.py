"""Footprints in many CRSs, in whatever unit and order of axes, end up at one place."""

import json
import sqlite3
import zipfile
from contextlib import closing

import geopandas
import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely
import yaml

from plumbline.core.errors import InputError
from plumbline.params import Footprints, Ingest
from plumbline.sources.footprints import area as area_module
from plumbline.sources.footprints.area import Area
from plumbline.sources.footprints.buildings import read_buildings, reprojected
from tests.sources.make import EAST, NORTH, squares, unless_refused

CRS = "EPSG:3035"
RING = [[13.15, 38.7], [13.1502, 38.7], [13.1502, 38.7001], [13.15, 38.7001], [13.15, 38.7]]
US_FOOT_M = 1200 / 3937


def geojson(path, ring, crs=None, first=True, properties=None):
    member = {} if crs is None else {"crs": crs}
    features = [
        {"type": "Feature", "properties": properties or {}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    ]
    if first:
        content = {"type": "FeatureCollection", **member, "features": features}
    else:
        content = {"type": "FeatureCollection", "features": features, **member}
    path.write_text(json.dumps(content))
    return path


def named(name):
    return {"type": "name", "properties": {"name": name}}


@pytest.mark.parametrize(
    "code",
    [4326, 4258, 4979, 3035, 32633, 3857, 2056, 31468, 2263, 27572],
    ids=[
        "degrees",
        "ETRS89 degrees",
        "degrees with heights",
        "northing first",
        "UTM",
        "web mercator",
        "Swiss",
        "Gauss-Krueger, northing first",
        "New York, US feet",
        "Lambert of Paris, grads",
    ],
)
@pytest.mark.parametrize("name", ["f.gpkg", "f.parquet"])
def test_the_same_ground_in_any_crs_is_at_the_same_place(tmp_path, code, name):
    place = {2056: (7.44, 46.95), 31468: (11.5, 48.1), 2263: (-74.0, 40.7), 27572: (2.3, 48.9), 32633: (15.0, 47.0)}
    x, y = place.get(code, (13.15, 38.7))
    zone = geopandas.GeoSeries([shapely.Point(x, y)], crs=4326).estimate_utm_crs()
    centre = geopandas.GeoSeries([shapely.Point(x, y)], crs=4326).to_crs(zone).iloc[0]
    here = geopandas.GeoDataFrame(geometry=[centre.buffer(12)], crs=zone)
    drawn = here.to_crs(code)
    if code == 4979:
        drawn = drawn.set_geometry(shapely.force_3d(drawn.geometry.to_numpy(), 80.0), crs=code)
    (drawn.to_file if name == "f.gpkg" else drawn.to_parquet)(tmp_path / name)
    read = read_buildings(tmp_path / name, f"EPSG:{zone.to_epsg()}")
    assert read.attrs["source_crs"] == f"EPSG:{code}"
    assert not read.has_z.any()
    assert read.geometry.iloc[0].symmetric_difference(here.geometry.iloc[0]).area < 0.5


def test_a_survey_foot_is_a_survey_foot(tmp_path):
    # Manhattan: a square of 100 ft; the scale of this projection is within 1e-4 of one there.
    drawn = geopandas.GeoDataFrame(geometry=[shapely.box(987_000, 211_000, 987_100, 211_100)], crs=2263)
    drawn.to_file(tmp_path / "f.gpkg")
    read = read_buildings(tmp_path / "f.gpkg", "EPSG:32618")
    assert read.area.iloc[0] == pytest.approx((100 * US_FOOT_M) ** 2, rel=2e-3)
    degrees = read.to_crs(4326).geometry.iloc[0].centroid
    assert (degrees.x, degrees.y) == (pytest.approx(-73.99, abs=0.02), pytest.approx(40.745, abs=0.02))


def test_the_origin_of_the_swiss_grid_is_the_old_observatory_of_bern(tmp_path):
    # swisstopo: E 2 600 000, N 1 200 000 is 7 26' 22.50" east, 46 57' 08.66" north on the Bessel ellipsoid (CH1903+),
    # which WGS 84 has some 100 m off.
    drawn = geopandas.GeoDataFrame(geometry=[shapely.box(2_599_995, 1_199_995, 2_600_005, 1_200_005)], crs=2056)
    drawn.to_file(tmp_path / "f.gpkg")
    degrees = read_buildings(tmp_path / "f.gpkg", "EPSG:32632").to_crs(4326).geometry.iloc[0].centroid
    assert degrees.x == pytest.approx(7 + 26 / 60 + 22.5 / 3600, abs=2e-3)
    assert degrees.y == pytest.approx(46 + 57 / 60 + 8.66 / 3600, abs=2e-3)


@pytest.mark.parametrize(
    "crs", [None, named("urn:ogc:def:crs:OGC:1.3:CRS84"), named("urn:ogc:def:crs:EPSG::4326"), named("EPSG:4326")]
)
def test_a_geojson_has_the_longitude_first_whatever_it_calls_its_degrees(tmp_path, crs):
    east, north = read_buildings(geojson(tmp_path / "f.geojson", RING, crs), CRS).total_bounds[:2]
    assert (east, north) == (pytest.approx(4_596_718.6, abs=1), pytest.approx(1_740_669.9, abs=1))


def test_a_gml_has_the_latitude_first_where_its_crs_says_so(tmp_path):
    squares().to_crs("EPSG:4326").to_file(tmp_path / "f.gml", driver="GML")
    position = (tmp_path / "f.gml").read_text().partition("<gml:posList>")[2].split()[:2]
    assert float(position[0]) > 30  # the latitude
    read = read_buildings(tmp_path / "f.gml", CRS)
    assert shapely.hausdorff_distance(read.geometry.to_numpy(), squares().geometry.to_numpy()).max() < 0.01


@pytest.mark.parametrize("name", ["f.gpkg", "f.parquet", "f.geojson"])
def test_a_projection_with_the_northing_first_is_written_easting_first(tmp_path, name):
    path = tmp_path / name
    (squares().to_parquet if name == "f.parquet" else squares().to_file)(path)
    west, south = read_buildings(path, CRS).total_bounds[:2]
    assert (west, south) == (pytest.approx(EAST - 4), pytest.approx(NORTH - 4))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    "crs",
    [
        named("EPSG:999999"),
        named("moon"),
        named(""),
        named(None),
        "EPSG:3035",
        3035,
        [],
        {"type": "name"},
        {"type": "link", "properties": {"href": "a.prj"}},
    ],
)
def test_a_geojson_with_a_crs_that_is_not_known_is_refused(tmp_path, crs, first):
    path = geojson(tmp_path / "f.geojson", RING, crs, first)
    with pytest.raises(InputError, match=r"f\.geojson: crs .* found, which is not known"):
        read_buildings(path, CRS)


@pytest.mark.parametrize("first", [True, False])
def test_a_crs_that_is_something_within_a_feature_is_none_of_the_collection(tmp_path, first):
    held = {"crs": "moon", "note": {"crs": {"a": [1]}}}
    path = geojson(tmp_path / "f.geojson", RING, None if first else named("EPSG:4326"), first, held)
    assert len(read_buildings(path, CRS)) == 1
    path = geojson(tmp_path / "g.geojson", RING, named("moon"), first, held)
    assert unless_refused(lambda: read_buildings(path, CRS), path) is None


def test_a_crs_of_heights_only_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"CRS EPSG:5701 \(Vertical CRS\) found"):
        read_buildings(geojson(tmp_path / "f.geojson", RING, named("EPSG:5701")), CRS)


def test_degrees_in_metres_and_metres_in_degrees_are_refused(tmp_path):
    metres = np.array(RING) * 1e5
    with pytest.raises(InputError, match="cannot be degrees"):
        read_buildings(geojson(tmp_path / "f.geojson", metres.tolist()), CRS)
    path = geojson(tmp_path / "g.geojson", RING, named("EPSG:3035"))
    with pytest.raises(InputError, match="without area"):
        read_buildings(path, CRS)


BOLOGNA = shapely.box(11.34, 44.49, 11.341, 44.491)


def frame(crs):
    return geopandas.GeoDataFrame({"n": [7]}, geometry=[BOLOGNA], crs="EPSG:4326").to_crs(crs)


@pytest.mark.parametrize("crs", ["EPSG:23032", "EPSG:4230", "EPSG:3003", "EPSG:32632", "EPSG:25832", "EPSG:3857"])
@pytest.mark.parametrize("wanted", ["EPSG:3035", "EPSG:32632"])
def test_a_place_stays_where_it_is(crs, wanted):
    """From ED50 to EPSG:3035 PROJ by itself is 129 m off here."""
    moved, direct = reprojected("f", frame(crs), wanted), frame(wanted)
    assert (moved.crs, moved["n"].tolist()) == (direct.crs, [7])
    apart = shapely.get_coordinates(moved.geometry) - shapely.get_coordinates(direct.geometry)
    assert np.abs(apart).max() < 10  # metres, by which the ways that there are differ


def test_without_a_way_the_datum_is_taken_for_the_other_and_that_is_said(caplog):
    """A CRS of an ellipsoid alone, as old files have it, says nothing of a datum."""
    house = shapely.box(6e5, 5e6, 6e5 + 20, 5e6 + 10)
    there = geopandas.GeoDataFrame(geometry=[house], crs="+proj=utm +zone=32 +ellps=intl")
    moved = reprojected("f.gpkg", there, "EPSG:3035")
    assert "f.gpkg: no way is known from" in caplog.text
    assert "footprints may lie up to 100 m off" in caplog.text
    assert np.isfinite(moved.total_bounds).all()


def unnamed(path, frame, kind):
    """Write features without a `crs`, as a collection, as lines, with a `crs` of null, or zipped."""
    features = json.loads(frame.to_json(drop_id=True))["features"]
    collection = {"type": "FeatureCollection", **({"crs": None} if kind == "null" else {}), "features": features}
    if kind == "lines":
        path.write_text("\n".join(map(json.dumps, features)))
    elif kind == "zip":
        path = path.with_suffix(".zip")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("f.geojson", json.dumps(collection))
    else:
        path.write_text(json.dumps(collection))
    return path


@pytest.mark.parametrize("kind", ["collection", "lines", "null", "zip", "large"])
@pytest.mark.parametrize("code", ["EPSG:3035", "EPSG:3857", "EPSG:2263"])
def test_a_stated_crs_counts_where_a_geojson_without_one_cannot_be_in_degrees(tmp_path, monkeypatch, kind, code):
    """The parser of GDAL says WGS 84 of each, the file does not."""
    if kind == "large":
        monkeypatch.setattr(area_module, "LARGE_BYTES", 0)
    wanted = squares()
    path = unnamed(tmp_path / "f.geojson", wanted.to_crs(code), kind)
    near = Area(tuple(wanted.total_bounds), CRS) if kind == "large" else None
    with pytest.raises(InputError, match=r"no CRS.*cannot be degrees") as refused:
        read_buildings(path, CRS, area=near)
    line = str(refused.value).partition("\n")[2].replace("EPSG:32633", code)
    stated = Ingest.model_validate(yaml.safe_load(line)["ingest"]).footprints
    found = read_buildings(path, CRS, stated=stated, area=near)
    assert shapely.hausdorff_distance(found.geometry.to_numpy(), wanted.geometry.to_numpy()).max() < 0.01


def test_a_stated_crs_does_not_count_for_degrees_and_one_lost_feature_decides_nothing(tmp_path, caplog):
    degrees = squares().to_crs("EPSG:4326")
    path = unnamed(tmp_path / "f.geojson", degrees, "collection")
    found = read_buildings(path, CRS, stated={"*": Footprints(crs="EPSG:25832")})
    assert shapely.hausdorff_distance(found.geometry.to_numpy(), squares().geometry.to_numpy()).max() < 0.01
    assert "does not count, coordinates in a GeoJSON without `crs` are degrees of WGS 84" in caplog.text
    degrees.loc[0, "geometry"] = shapely.box(1e6, 1e6, 2e6, 2e6)
    with pytest.raises(InputError, match="cannot be degrees of longitude and latitude, as the CRS"):
        read_buildings(unnamed(path, degrees, "collection"), CRS, stated={"*": Footprints(crs="EPSG:25832")})


def test_a_stated_crs_counts_where_the_file_s_own_says_no_place(tmp_path):
    """GeoPackage has two undefined ones, MapInfo and others a grid of their own."""
    wanted = squares()
    layers = {"cartesian.gpkg": (wanted, -1), "degrees.gpkg": (wanted.to_crs("EPSG:4326"), 0)}
    for name, (frame, number) in layers.items():
        frame.to_file(tmp_path / name)
        with closing(sqlite3.connect(tmp_path / name)) as connection, connection:
            for table in ("gpkg_geometry_columns", "gpkg_contents"):
                connection.execute(f"UPDATE {table} SET srs_id = {number}")
    wanted.to_file(tmp_path / "local.shp")
    (tmp_path / "local.prj").write_text('LOCAL_CS["Nonearth",UNIT["Meter",1.0]]')
    for name, crs in (("cartesian.gpkg", CRS), ("degrees.gpkg", "EPSG:4326"), ("local.shp", CRS)):
        if crs == CRS:
            with pytest.raises(InputError, match=r"no CRS.*cannot be degrees"):
                read_buildings(tmp_path / name, CRS)
        found = read_buildings(tmp_path / name, CRS, stated={"*": Footprints(crs=crs)})
        assert shapely.hausdorff_distance(found.geometry.to_numpy(), wanted.geometry.to_numpy()).max() < 0.01


@pytest.mark.parametrize("large", [False, True])
def test_a_geoparquet_that_names_no_crs_is_in_degrees_only_if_it_may_be(tmp_path, monkeypatch, caplog, large):
    wanted, path = squares(), tmp_path / "f.parquet"
    near = Area(tuple(wanted.total_bounds), CRS) if large else None
    if large:
        monkeypatch.setattr(area_module, "LARGE_BYTES", 0)
        monkeypatch.setattr(area_module, "LARGE_PACKED_BYTES", 0)
    for crs in (CRS, "EPSG:4326"):
        wanted.to_crs(crs).to_parquet(path)
        table = pq.read_table(path)
        about = json.loads(table.schema.metadata[b"geo"])
        del about["columns"]["geometry"]["crs"]
        pq.write_table(table.replace_schema_metadata({b"geo": json.dumps(about)}), path)
        if crs == CRS:
            with pytest.raises(InputError, match=r"no CRS.*cannot be degrees"):
                read_buildings(path, CRS, area=near)
        found = read_buildings(path, CRS, stated={"*": Footprints(crs=CRS)}, area=near)
        assert shapely.hausdorff_distance(found.geometry.to_numpy(), wanted.geometry.to_numpy()).max() < 0.01
    assert "does not count, coordinates in a GeoParquet without `crs` are degrees" in caplog.text
