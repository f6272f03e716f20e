"""What a message advises works on that very file: commands of GDAL, and lines of parameters."""

import json
import shutil
import sqlite3
import zipfile

import geopandas
import numpy as np
import pytest
import shapely
import yaml

from plumbline.core.errors import InputError
from plumbline.params import Footprints, Ingest
from plumbline.sources.checks import check_overlap
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.points.read import read_points
from tests.sources.advised import run_advised
from tests.sources.footprints.test_cases import BASE, CASES, CRS
from tests.sources.make import squares, text
from tests.sources.points.test_vector_layer import frame
from tests.sources.points.write_columns import COLUMNS, described, rows
from tests.sources.points.write_depsi import rows as depsi_rows
from tests.sources.points.write_ortho import cells as ortho_cells

LAYER = COLUMNS | {"latitude": "geometry_latitude", "longitude": "geometry_longitude"}


def refused(read, *given, **named) -> str:
    with pytest.raises(InputError) as caught:
        read(*given, **named)
    return str(caught.value)


def places(table):
    return np.sort(shapely.get_coordinates(table.geometry.centroid.to_numpy()), axis=0)


@pytest.mark.parametrize("name", ["a b's.gml", "a.zip"])
@pytest.mark.parametrize("crs", ["EPSG:3035", "EPSG:4326", "EPSG:25833"])
def test_a_gml_with_its_axes_exchanged_is_named_and_read_the_other_way(tmp_path, monkeypatch, name, crs):
    """As deegree and others write it: easting first where the CRS says northing, and the other way round."""
    base, points = read_buildings(BASE / "fp.gpkg", CRS), read_points(BASE / "asc.csv")
    path = tmp_path / name
    text = (CASES / "messages" / "wfs3035_deegree.gml").read_text()
    x, y = shapely.get_coordinates(base.to_crs(crs).geometry.to_numpy()).T
    x, y = (y, x) if crs == "EPSG:25833" else (x, y)
    old = shapely.get_coordinates(base.geometry.to_numpy())
    for before, new in zip(old, zip(x, y, strict=True), strict=True):
        text = text.replace(f"{before[0]:.9f} {before[1]:.9f}", f"{new[0]:.9f} {new[1]:.9f}")
    text = text.replace("EPSG::3035", crs.replace(":", "::"))
    if name.endswith("zip"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("deep/a.gml", text)
    else:
        path.write_text(text)
    buildings = read_buildings(path, CRS)
    said = refused(check_overlap, [points], buildings, "asc.csv", str(path))
    assert f"{path} has {'longitude' if crs == 'EPSG:4326' else 'easting'} and" in said
    assert f"SWAP_COORDINATES={'YES' if crs == 'EPSG:25833' else 'NO'}" in said
    assert not list(tmp_path.glob("*.gfs"))
    found = read_buildings(run_advised(said, tmp_path, monkeypatch), CRS)
    np.testing.assert_allclose(places(found), places(base), atol=0.01)


def test_points_and_footprints_of_other_formats_are_named_by_where_nobody_uses_their_crs(tmp_path):
    points = read_points(BASE / "asc.csv", crs="EPSG:32633")
    turned = read_buildings(BASE / "fp.gpkg", "EPSG:32633")
    turned = turned.set_geometry(
        geopandas.GeoSeries(shapely.transform(turned.geometry.to_numpy(), lambda xy: xy[:, ::-1]), crs="EPSG:32633")
    )
    said = refused(check_overlap, [points], turned, "asc.csv", "fp.gpkg")
    assert "fp.gpkg has easting and northing exchanged. Exchange them (QGIS: Swap X and Y coordinates)." in said


def test_a_table_with_outlines_as_text_becomes_a_csv_that_is_read(tmp_path, monkeypatch):
    with sqlite3.connect(tmp_path / "t.sqlite") as connection:
        connection.execute("CREATE TABLE houses (name TEXT, outline TEXT)")
        connection.executemany(
            "INSERT INTO houses VALUES (?, ?)",
            [(f"H{number}", shape.wkt) for number, shape in enumerate(squares().geometry)],
        )
    out = run_advised(refused(read_buildings, tmp_path / "t.sqlite", CRS), tmp_path, monkeypatch)
    line = refused(read_buildings, out, CRS).partition("\n")[2].replace("EPSG:32633", CRS)
    stated = Ingest.model_validate(yaml.safe_load(line)["ingest"]).footprints
    np.testing.assert_allclose(places(read_buildings(out, CRS, stated=stated)), places(squares()))


@pytest.mark.parametrize("zipped", [False, True])
def test_a_shapefile_without_its_table_becomes_a_layer(tmp_path, monkeypatch, zipped):
    squares().to_file(tmp_path / "h.shp")
    (tmp_path / "h.dbf").unlink()
    path = tmp_path / "h.shp"
    if zipped:
        path = tmp_path / "h.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for suffix in ("shp", "shx", "prj"):
                archive.write(tmp_path / f"h.{suffix}", f"deep/h.{suffix}")
    out = run_advised(refused(read_buildings, path, CRS), tmp_path, monkeypatch)
    np.testing.assert_allclose(places(read_buildings(out, CRS)), places(squares()))


def test_a_shapefile_without_its_index_becomes_a_layer(tmp_path, monkeypatch):
    squares().to_file(tmp_path / "h.shp")
    (tmp_path / "h.shx").unlink()
    out = run_advised(refused(read_buildings, tmp_path / "h.shp", CRS), tmp_path, monkeypatch)
    assert len(read_buildings(out, CRS)) == 3


def test_rings_in_doubt_are_mended_by_the_command(tmp_path, monkeypatch):
    bow = shapely.Polygon([(0, 0), (10, 10), (10, 0), (0, 10)])
    shape = shapely.transform(bow, lambda xy: np.add(xy, [4_520_000, 2_090_000]))
    geopandas.GeoDataFrame(geometry=[shape], crs=CRS).to_file(tmp_path / "b.gpkg")
    out = run_advised(refused(read_buildings, tmp_path / "b.gpkg", CRS), tmp_path, monkeypatch)
    assert len(read_buildings(out, CRS)) == 1


def test_one_of_several_layers_of_points_is_written(tmp_path, monkeypatch):
    for name in ("asc (1)", "desc"):
        frame(rows(), "Lon", "Lat", 4326).to_file(tmp_path / "both.gpkg", layer=name)
    out = run_advised(refused(read_points, tmp_path / "both.gpkg"), tmp_path, monkeypatch)
    assert len(read_points(out, {"*": described(columns=LAYER)})) == 6


def test_points_in_pairs_become_single_ones(tmp_path, monkeypatch):
    drawn = frame(rows(), "Lon", "Lat", 4326)
    drawn.geometry = [shapely.MultiPoint([shape, shape]) for shape in drawn.geometry]
    drawn.to_file(tmp_path / "p.gpkg")
    about = {"*": described(columns=LAYER)}
    out = run_advised(refused(read_points, tmp_path / "p.gpkg", about), tmp_path, monkeypatch)
    assert len(read_points(out, about)) in (6, 12)


def test_a_wrong_crs_of_points_is_mended_by_the_command(tmp_path, monkeypatch):
    frame(rows(), "Lon", "Lat", 4326).to_file(tmp_path / "p.gpkg")
    frame(rows(), "Lon", "Lat", 4326).set_crs(4258, allow_override=True).to_crs(25832).to_file(tmp_path / "p.gpkg")
    places_ = {"easting": "geometry_easting", "northing": "geometry_northing"}
    columns = {name: column for name, column in COLUMNS.items() if name not in ("latitude", "longitude")} | places_
    about = {"*": described(columns=columns, crs="EPSG:25831")}
    said = refused(read_points, tmp_path / "p.gpkg", about)
    out = run_advised(said, tmp_path, monkeypatch)
    assert len(read_points(out, about)) == 6


@pytest.mark.parametrize("name", ["it's a[1].csv", 'a "b".csv', "\u00e4 # b: c.csv"])
def test_lines_for_points_fit_the_very_file(tmp_path, name):
    path = tmp_path / name
    path.write_text(text(ortho_cells()))
    line = "ingest:" + refused(read_points, path).partition("ingest:")[2]
    assert len(read_points(path, Ingest.model_validate(yaml.safe_load(line)["ingest"]).products)) == 6
    path.write_text(text(depsi_rows()))
    line = "ingest:" + refused(read_points, path).partition("ingest:")[2]
    assert len(read_points(path, Ingest.model_validate(yaml.safe_load(line)["ingest"]).products)) == 6


def test_restated_footprints_without_crs_are_read_by_the_line_of_the_message(tmp_path):
    features = json.loads(squares().to_json(drop_id=True))["features"]
    path = tmp_path / "it's [1] \u00e4.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    line = refused(read_buildings, path, CRS).partition("\n")[2].replace("EPSG:32633", CRS)
    stated = Ingest.model_validate(yaml.safe_load(line)["ingest"]).footprints
    assert stated == {path.name: Footprints(crs=CRS)}
    assert len(read_buildings(path, CRS, stated=stated)) == len(squares())
    shutil.rmtree(tmp_path)
