"""The layers of scatterers have the points that were judged by, as in the product, and are bounded."""

import geopandas
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.assignment.nearest import UNASSIGNED
from plumbline.serve import layers as histories
from plumbline.serve.layers import layer_names, scatterer_layers
from tests.prepare.made import EPOCHS, make_track
from tests.serve.test_predictions import predictions

TABLE = predictions(["a", "b", "c"], ["ok", "insufficient_points", "ok"])
FEW = 3
"""Values of a series that no trend can be told from."""


@pytest.fixture
def track():
    """Ten points: of each building three, and one of none; the first of the last building has hardly any value."""
    rng = np.random.default_rng(1)
    series = np.arange(60) * 0.2 + rng.normal(0, 0.1, (10, 60))
    series[6, FEW:] = np.nan
    series[0, 5] = np.nan
    return make_track("T", rng.uniform(0, 99, (10, 2)), np.arange(10.0), (0, 0, 1), series)


OWNER = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, UNASSIGNED])


def written(layer):
    return pd.concat(layer.pieces, ignore_index=True)


@pytest.mark.parametrize("piece", [1, 2, 4096])
def test_points_are_those_that_were_judged_by_with_their_own_histories(track, monkeypatch, piece):
    monkeypatch.setattr(histories, "PIECE_POINTS", piece)
    (layer,) = scatterer_layers([track], [OWNER], TABLE)
    assert layer.name == "scatterers_T"
    rows = written(layer)
    assert rows["point_id"].tolist() == ["T0", "T1", "T2", "T7", "T8"]
    assert rows["building_id"].tolist() == ["a", "a", "a", "c", "c"]
    assert set(rows["track"]) == {"T"}
    assert rows["height"].tolist() == [0, 1, 2, 7, 8]
    assert rows["velocity"].to_numpy() == pytest.approx(0.2 / 12 * 365.25, abs=0.1)
    days = [name for name in rows if name.startswith("D")]
    assert days == [f"D{str(day).replace('-', '')}" for day in EPOCHS]
    np.testing.assert_array_equal(rows[days].to_numpy(np.float32), track.displacement[[0, 1, 2, 7, 8]])
    assert isinstance(rows, geopandas.GeoDataFrame)
    assert rows.crs == track.crs
    np.testing.assert_array_equal(rows.geometry.x, track.easting[[0, 1, 2, 7, 8]])
    assert list(rows.columns[:5]) == ["point_id", "building_id", "track", "velocity", "height"]


def test_a_track_without_such_points_has_no_layer(track):
    none = np.full(10, UNASSIGNED)
    assert scatterer_layers([track, track], [none, none], TABLE) == []
    fast = make_track("F", np.ones((10, 2)), np.arange(10.0), (0, 0, 1), 5 * track.displacement)
    styles = [layer.style.qml for layer in scatterer_layers([track, fast], [OWNER, OWNER], TABLE)]
    assert styles[0] == styles[1]  # one scale of colours
    nobody = predictions(["a", "b", "c"], ["insufficient_points"] * 3)
    assert scatterer_layers([track], [OWNER], nobody) == []


def test_where_there_are_too_many_the_most_probably_damaged_have_theirs(track, monkeypatch, caplog):
    monkeypatch.setattr(histories, "MAX_EPOCHS", 4)
    (layer,) = scatterer_layers([track], [OWNER], TABLE)
    assert [name for name in written(layer) if name.startswith("D")] == [
        f"D{str(day).replace('-', '')}" for day in EPOCHS[-4:]
    ]
    monkeypatch.setattr(histories, "MAX_DISPLACEMENTS", 3 * 4)
    (layer,) = scatterer_layers([track], [OWNER], TABLE)
    worst = TABLE.loc[TABLE["p_damaged"].idxmax(), "building_id"]
    assert set(written(layer)["building_id"]) == {worst}
    assert "have those of the 1 buildings that are most probably damaged, of 2" in caplog.text


@given(st.lists(st.text(max_size=80), min_size=1, max_size=6))
def test_any_track_has_a_plain_name_of_its_own(tracks):
    names = layer_names(tracks)
    assert len({name.lower() for name in names}) == len(tracks)
    assert all(name.startswith("scatterers_") and name.isascii() for name in names)
    assert all(name.replace("_", "").isalnum() for name in names)


def test_names_tell_the_track():
    assert layer_names(["EGMS_L2b_117.csv", "asc/ts", "ASC ts", "…"]) == [
        "scatterers_EGMS_L2b_117_csv",
        "scatterers_asc_ts",
        "scatterers_ASC_ts_2",
        "scatterers_track",
    ]
