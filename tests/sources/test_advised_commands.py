"""What a message advises works on that very file: commands of GDAL, and lines of parameters."""

import json
import shutil

import geopandas
import numpy as np
import pytest
import shapely
import yaml

from plumbline.core.errors import InputError
from plumbline.params import Footprints, Ingest
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.points.read import read_points
from tests.sources.advised import run_advised
from tests.sources.footprints.test_cases import CRS
from tests.sources.make import squares, text
from tests.sources.points.formats.write_layouts import rows as rows_of_layout
from tests.sources.points.test_vector_layer import frame
from tests.sources.points.write_columns import COLUMNS, described, rows
from tests.sources.points.write_ortho import cells as ortho_cells

LAYER = COLUMNS | {"latitude": "geometry_latitude", "longitude": "geometry_longitude"}


def refused(read, *given, **named) -> str:
    with pytest.raises(InputError) as caught:
        read(*given, **named)
    return str(caught.value)


def places(table):
    return np.sort(shapely.get_coordinates(table.geometry.centroid.to_numpy()), axis=0)


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
    path.write_text(text(rows_of_layout("depsi")))
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
