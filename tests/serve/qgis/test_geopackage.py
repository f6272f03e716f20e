"""A GeoPackage has the rows that QGIS looks for, the predictions first, and is written whole or not at all."""

import sqlite3
import warnings
from contextlib import closing

import geopandas
import numpy as np
import pandas as pd
import pyogrio
import pytest

from plumbline.serve.layers import scatterer_layers
from plumbline.serve.predictions import Outputs, check_outputs, read_predictions, write_predictions
from plumbline.serve.qgis.packed_histories import PACKED
from tests.prepare.made import EPOCHS, make_track
from tests.refusals import refuses
from tests.serve.test_predictions import assert_same, predictions


def table(count=6):
    return predictions([f"b{number}" for number in range(count)], ["ok", "insufficient_points"] * (count // 2))


def tracks_of(count, epochs=EPOCHS, points=5):
    """Two tracks, with points of each building."""
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(count), points)
    place = np.column_stack([337000 + 30.0 * owner, np.full(len(owner), 4285000.0)])
    made = [
        make_track(name, place, rng.uniform(0, 9, len(owner)), (0, 0, 1), rng.normal(0, 3, (len(owner), len(epochs))))
        for name in ("EGMS A/1", "EGMS A_1")
    ]
    return made, [owner, owner]


def layers_of(predicted, count=6, **more):
    made, owners = tracks_of(count, **more)
    return scatterer_layers(made, owners, predicted)


def rows(path, query):
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def test_each_layer_has_its_default_style_and_the_predictions_are_the_first(tmp_path):
    path = tmp_path / "out.gpkg"
    written = table()
    write_predictions(written, path, layers_of(written))
    names = ["predictions", "scatterers_EGMS_A_1", "scatterers_EGMS_A_1_2"]
    columns = " ".join(row[1] for row in rows(path, "PRAGMA table_info(layer_styles)"))
    assert columns == (
        "id f_table_catalog f_table_schema f_table_name f_geometry_column styleName styleQML styleSLD useAsDefault "
        "description owner ui update_time"
    )
    columns = "f_table_catalog, f_table_schema, f_table_name, f_geometry_column, styleName, useAsDefault"
    assert rows(path, f"SELECT {columns} FROM layer_styles") == [
        ("", "", name, "geom", "Plumbline", 1) for name in names
    ]
    for qml, sld, when in rows(path, "SELECT styleQML, styleSLD, update_time FROM layer_styles"):
        assert qml.startswith("<!DOCTYPE qgis")
        assert sld.startswith("<?xml")
        assert len(when) == len("2026-11-26T00:00:00.000Z")
    contents = rows(path, "SELECT table_name, data_type FROM gpkg_contents")
    assert contents == [*((name, "features") for name in names), ("layer_styles", "attributes")]
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    # Readers of the first layer still find the predictions.
    assert str(pyogrio.list_layers(path)[0][0]) == "predictions"
    with warnings.catch_warnings(action="error"):
        assert_same(read_predictions(path), written)
    with pytest.warns(UserWarning, match="More than one layer"):
        assert len(geopandas.read_file(path)) == len(written)


def test_a_history_is_a_field_an_epoch_in_mm_and_takes_a_third_of_plain_numbers(tmp_path):
    path, predicted = tmp_path / "out.gpkg", table()
    (track, _), (owner, _) = tracks_of(6, points=100)
    track.displacement[0, 3] = np.nan
    (layer,) = scatterer_layers([track], [owner], predicted)
    wanted = pd.concat(layer.pieces, ignore_index=True)
    write_predictions(predicted, path, scatterer_layers([track], [owner], predicted))
    read = pyogrio.read_dataframe(path, layer=layer.name)
    assert list(read) == list(wanted)
    assert (read["track"] == track.name).all()
    days = list(layer.epochs)
    assert (read[days].dtypes == np.float32).all()
    # Half a step of 0.1 mm.
    np.testing.assert_allclose(read[days], wanted[days], rtol=0, atol=0.0501)
    assert pyogrio.read_info(path, layer=layer.name)["capabilities"]["fast_spatial_filter"]
    pyogrio.write_dataframe(wanted, tmp_path / "plain.gpkg", layer=layer.name)

    def stored(file, name):
        return rows(file, f"SELECT sum(payload) FROM dbstat WHERE name = '{name}'")[0][0]

    assert stored(path, layer.name + PACKED) < stored(tmp_path / "plain.gpkg", layer.name) / 2.5


def test_our_own_file_may_be_written_again_and_another_with_such_layers_not(tmp_path):
    path = tmp_path / "out.gpkg"
    written = table()
    for _ in range(2):
        check_outputs(Outputs(path), [], tmp_path / "package")
        write_predictions(written, path, layers_of(written))
    for layer in ("scatterers_mine", "parcels", "predictions"):  # it is by their columns that ours are known
        other = tmp_path / f"{layer}.gpkg"
        written[["geometry"]].to_file(other, layer=layer)
        with refuses("output.foreign_layers", other.name, layer):
            check_outputs(Outputs(other), [], tmp_path / "package")


@pytest.mark.parametrize("suffix", [".csv", ".geojson", ".parquet"])
def test_other_formats_have_no_scatterers(tmp_path, suffix):
    written = table()
    write_predictions(written, tmp_path / f"plain{suffix}")
    write_predictions(written, tmp_path / f"with{suffix}", layers_of(written))
    assert (tmp_path / f"plain{suffix}").read_bytes() == (tmp_path / f"with{suffix}").read_bytes()


def test_a_stated_date_stands_in_for_the_clock(tmp_path, monkeypatch):
    """GDAL's own setting; the stage `predict` sets it, so that the same inputs give the same bytes."""
    monkeypatch.setenv("OGR_CURRENT_DATE", "2000-01-01T00:00:00.000Z")
    path, table_of_six = tmp_path / "out.gpkg", table()
    write_predictions(table_of_six, path, layers_of(table_of_six))
    dates = rows(path, "SELECT last_change FROM gpkg_contents") + rows(path, "SELECT update_time FROM layer_styles")
    assert set(dates) == {("2000-01-01T00:00:00.000Z",)}
