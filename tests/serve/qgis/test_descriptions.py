"""A GeoPackage says of each layer and of each column what it means, where the standard has it."""

import sqlite3
from contextlib import closing

import pyogrio

from plumbline.serve.columns import DECLARED
from plumbline.serve.layers import unjudged_layer
from plumbline.serve.predictions import read_predictions, write_predictions
from plumbline.serve.qgis.descriptions import LAYERS, SCATTERERS
from tests.serve.made import judged_of
from tests.serve.qgis.test_geopackage import layers_of, table
from tests.serve.test_predictions import assert_same


def test_each_layer_and_column_is_described_in_the_file(tmp_path):
    path, written = tmp_path / "out.gpkg", table()
    write_predictions(written, path, [*unjudged_layer(judged_of(written)), *layers_of(written)])
    with closing(sqlite3.connect(path)) as database:
        layers = dict(database.execute("SELECT table_name, description FROM gpkg_contents"))
        columns = database.execute("SELECT table_name, column_name, title, description FROM gpkg_data_columns")
        described = {(layer, column): (title, text) for layer, column, title, text in columns}
        extension = database.execute("SELECT table_name, scope FROM gpkg_extensions").fetchall()
    assert layers["predictions"] == LAYERS["predictions"]
    assert layers["scatterers_EGMS_A_1"] == SCATTERERS
    assert [name for name, text in layers.items() if not text] == ["layer_styles"]
    for column in DECLARED:
        assert described["predictions", column.name] == (column.alias, column.sentence)
    assert {column for layer, column in described if layer == "not_judged"} == set(
        pyogrio.read_info(path, layer="not_judged")["fields"]
    )
    assert ("gpkg_data_columns", "read-write") in extension
    assert_same(read_predictions(path), written)
