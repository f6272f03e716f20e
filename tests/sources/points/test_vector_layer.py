"""Points in vector files read as the csv that they were made from."""

import json
import zipfile

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely
import yaml

from plumbline.params import Product
from tests.refusals import refuses
from tests.sources.footprints.test_cases import CASES
from tests.sources.make import rows as egms_rows
from tests.sources.make import text
from tests.sources.points.opening import product_parts, read_points
from tests.sources.points.write_columns import COLUMNS, described, rows
from tests.sources.points.write_points import assert_track

SUFFIXES = ("gpkg", "geojson", "shp", "fgb")
PLACED = {name: column for name, column in COLUMNS.items() if name not in ("latitude", "longitude")}


def frame(cells, x, y, crs, keep=True):
    """Cells as typed columns, with points at the columns `x`, `y`."""
    table = pd.DataFrame(cells)
    for name in table:
        numbers = pd.to_numeric(table[name], errors="coerce")
        table[name] = numbers if numbers.notna().all() else table[name]
    points = geopandas.points_from_xy(table[x], table[y])
    return geopandas.GeoDataFrame(table if keep else table.drop(columns=[x, y]), geometry=points, crs=crs)


def packed(tmp_path, suffix):
    """A zip of what was written as `plain`, in a folder of its own."""
    with zipfile.ZipFile(tmp_path / "plain.zip", "w") as archive:
        for path in tmp_path.glob("plain.*"):
            if path.suffix not in (".zip", ".txt"):
                archive.write(path, f"deep/{path.name}")
    return tmp_path / "plain.zip"


def in_order(track):
    """A FlatGeobuf's points are sorted by place."""
    return track.take(np.argsort(track.point_id))


@pytest.mark.parametrize(("suffix", "zipped"), [*((suffix, False) for suffix in SUFFIXES), ("shp", True)])
def test_a_described_layer_reads_as_its_csv(tmp_path, suffix, zipped):
    """Attributes only, the places from the geometry."""
    (tmp_path / "plain.txt").write_text(text(rows()), encoding="utf-8")
    wanted = read_points(tmp_path / "plain.txt", {"*": described()})
    path = tmp_path / f"plain.{suffix}"
    frame(rows(), "Lon", "Lat", 4326, keep=False).to_file(path)
    about = described(columns=PLACED | {"latitude": "geometry_latitude", "longitude": "geometry_longitude"})
    found = packed(tmp_path, suffix) if zipped else path
    assert len(product_parts(found, {"*": about})) == 1
    assert_track(in_order(read_points(found, {"*": about})), wanted)


@pytest.mark.filterwarnings("ignore:Column names longer", "ignore:Normalized/laundered")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_egms_product_in_a_layer_is_recognised(tmp_path, suffix):
    """Also in a Shapefile, where names of columns are cut after ten letters: `height_ort`, `temporal_c`."""
    (tmp_path / "plain.csv").write_text(text(egms_rows()), encoding="utf-8")
    path = tmp_path / f"plain.{suffix}"
    x, y, crs = ("longitude", "latitude", 4326) if suffix == "geojson" else ("easting", "northing", 3035)
    frame(egms_rows(), x, y, crs).to_file(path)
    found, wanted = (in_order(read_points(one)) for one in (path, tmp_path / "plain.csv"))
    assert_track(found, wanted)
    np.testing.assert_array_equal(found.coherence, wanted.coherence)


@pytest.mark.parametrize("value", [{"source": "survey", "levels": [1, 2]}, "two\nlines"])
def test_attributes_that_no_cell_holds_are_passed_over(tmp_path, value):
    plain = frame(egms_rows(), "longitude", "latitude", 4326)
    plain.to_file(tmp_path / "plain.geojson")
    (tmp_path / "more").mkdir()
    plain.assign(tags=[value] * len(plain)).to_file(tmp_path / "more" / "plain.geojson")
    assert_track(read_points(tmp_path / "more" / "plain.geojson"), read_points(tmp_path / "plain.geojson"))


def test_a_stated_crs_counts_where_the_layer_s_own_says_no_place(tmp_path):
    cells = frame(rows(), "Lon", "Lat", 4326, keep=False).to_crs(32631)
    cells.set_crs('LOCAL_CS["Undefined Cartesian SRS",UNIT["Meter",1]]', allow_override=True).to_file(
        tmp_path / "a.gpkg"
    )
    own = {"easting": "geometry_easting", "northing": "geometry_northing"}
    track = read_points(tmp_path / "a.gpkg", {"*": described(columns=PLACED | own, crs="EPSG:32631")})
    np.testing.assert_allclose(track.easting, cells.geometry.x, atol=1e-3)


@pytest.mark.parametrize("suffix", ["gpkg", "shp"])
def test_a_crs_that_is_not_the_layers_own_is_refused(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    frame(rows(), "Lon", "Lat", 4326).to_crs(32631).to_file(path)
    columns = PLACED | {"easting": "geometry_easting", "northing": "geometry_northing"}
    for stated in ("EPSG:32631", "EPSG:25831"):  # of places a decimetre apart
        assert len(read_points(path, {"*": described(columns=columns, crs=stated)})) == 6
    with refuses("layer.other_crs", path, "geometry_northing", "EPSG:32631", "EPSG:32632"):
        read_points(path, {"*": described(columns=columns, crs="EPSG:32632")})


def test_what_is_no_layer_of_points_is_refused(tmp_path):
    points = frame(rows(), "Lon", "Lat", 4326)
    houses = points.set_geometry(points.geometry.map(lambda point: point.buffer(1e-4)))
    houses.to_file(tmp_path / "houses.gpkg")
    with refuses("layer.not_one", "houses.gpkg", "houses (Polygon)"):
        read_points(tmp_path / "houses.gpkg")
    for layer in ("one", "two"):
        points.to_file(tmp_path / "both.gpkg", layer=layer)
    with refuses("layer.not_one", "one (Point), two (Point)", "`ogr2ogr OUT.gpkg both.gpkg one`"):
        read_points(tmp_path / "both.gpkg")
    mixed = points.copy()
    mixed.loc[3, "geometry"] = shapely.box(0, 0, 1, 1)
    mixed.to_file(tmp_path / "mixed.geojson")
    with refuses("layer.not_a_point", "mixed.geojson", "feature 4, geometry: Polygon"):
        read_points(tmp_path / "mixed.geojson", {"*": described()})


@pytest.mark.parametrize("suffix", ["gpkg", "shp"])
def test_multipoints_of_one_point_are_points(tmp_path, suffix):
    points = frame(rows(), "Lon", "Lat", 4326)
    points.to_file(tmp_path / f"a.{suffix}")
    wanted = read_points(tmp_path / f"a.{suffix}", {"*": described(track="t")})
    points = points.set_geometry(points.geometry.map(lambda point: shapely.MultiPoint([point])))
    points.to_file(tmp_path / f"multi.{suffix}")
    assert_track(read_points(tmp_path / f"multi.{suffix}", {"*": described(track="t")}), wanted)
    points.loc[2, "geometry"] = shapely.MultiPoint([(4.9, 52.3), (4.91, 52.3)])
    points.to_file(tmp_path / f"several.{suffix}")
    with refuses("layer.not_a_point", "several", "geometry: MultiPoint of 2", "`ogr2ogr -explodecoll"):
        read_points(tmp_path / f"several.{suffix}", {"*": described()})


@pytest.mark.parametrize(("suffix", "share", "zipped"), [("dbf", 0.9, False), ("dbf", 0.9, True), ("fgb", 0.5, False)])
def test_a_layer_that_ends_before_its_last_point_is_refused(tmp_path, suffix, share, zipped):
    """Of some files GDAL gives the points before the cut, and says nothing."""
    cells = rows()
    many = [cells[number % 6] | {"CODE": f"P{number}"} for number in range(600)]
    frame(many, "Lon", "Lat", 4326).to_file(tmp_path / ("plain.fgb" if suffix == "fgb" else "plain.shp"))
    cut = tmp_path / f"plain.{suffix}"
    cut.write_bytes(cut.read_bytes()[: int(share * cut.stat().st_size)])
    path = packed(tmp_path, suffix) if zipped else next(p for p in tmp_path.iterdir() if p.suffix in (".shp", ".fgb"))
    with refuses("layer.damaged", path):
        read_points(path, {"*": described()})


@pytest.mark.parametrize("suffix", ["gpkg", "shp"])
def test_heights_that_are_in_the_places_alone_are_a_column(tmp_path, suffix):
    """`PointZ`: without it all points are taken to be of one height."""
    cells = rows()
    flat = frame([{name: value for name, value in row.items() if name != "H"} for row in cells], "Lon", "Lat", 4326)
    flat.geometry = geopandas.points_from_xy(flat.Lon, flat.Lat, [float(row["H"]) for row in cells], crs=4326)
    path = tmp_path / f"plain.{suffix}"
    flat.to_file(path)
    with refuses("points.unknown_format", path, "height: 'geometry_height'"):
        read_points(path)
    about = described(columns=COLUMNS | {"height": "geometry_height"})
    np.testing.assert_allclose(in_order(read_points(path, {"*": about})).height, [float(row["H"]) for row in cells])


def test_points_in_metres_of_a_geojson_without_crs_are_in_the_stated_one(tmp_path):
    """As a zip, too, and in feet."""
    folder = CASES / "projected-geojson"
    products = yaml.safe_load((folder / "points.yaml").read_text())["ingest"]["products"]
    about = Product.model_validate(products["pj*.geojson"])
    track = read_points(folder / "pj_asc.geojson", {"*": about})
    base = read_points(CASES / "base" / "asc.csv")
    near = np.hypot(track.easting[:, None] - base.easting, track.northing[:, None] - base.northing).min(axis=1)
    assert near.max() < 0.01
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.write(folder / "pj_asc.geojson", "pj_asc.geojson")
    assert_track(read_points(tmp_path / "p.zip", {"*": about.model_copy(update={"track": "pj_asc"})}), track)
    with refuses("points.unknown_format", "easting: 'geometry_easting'", "\n      crs: EPSG:NUMBER"):
        read_points(folder / "pj_asc.geojson")
    feet = geopandas.read_file(folder / "pj_asc.geojson").set_crs(3035, allow_override=True).to_crs("EPSG:2263")
    features = json.loads(feet.to_json(drop_id=True))["features"]
    (tmp_path / "pj.json").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    moved = read_points(tmp_path / "pj.json", {"*": about.model_copy(update={"crs": "EPSG:2263"})}, crs="EPSG:3035")
    np.testing.assert_allclose(moved.easting, track.easting, atol=0.01)
