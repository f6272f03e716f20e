"""Files as programs write them give the answer that the same points give in EGMS's layout."""

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plumbline.core.errors import InputError
from plumbline.sources.points.read import read_points
from plumbline.sources.points.source import all_points
from tests.sources.points.opening import open_points
from tests.tiny import run_cli

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
VIEWS = {"asc": "incidence_deg: 38.0, heading_deg: -10.0", "des": "incidence_deg: 36.0, heading_deg: 190.0"}
ROUNDING_PERMILLE = 0.1


def answer(folder, points, params=""):
    """Severities that the shipped model gives for these points."""
    (folder / "p.yaml").write_text(params or "ingest: {}\n")
    words = [word for path in points for word in ("--points", path)]
    ended = run_cli(
        "predict",
        *words,
        "--buildings",
        CASES / "base" / "fp.gpkg",
        "--output",
        "o.csv",
        "--params",
        "p.yaml",
        cwd=folder,
    )
    assert ended.code == 0, ended.err
    return pd.read_csv(folder / "o.csv").set_index("building_id")


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    base = CASES / "base"
    return answer(tmp_path_factory.mktemp("base"), [base / "asc.csv", base / "des.csv"])


def test_the_layout_of_industry_and_of_save_qgis_gives_the_right_answer(tmp_path, right):
    for name in VIEWS:
        with zipfile.ZipFile(CASES / "industry-shapefile" / f"ts_{name}.zip") as archive:
            archive.extractall(tmp_path)
    with pytest.raises(InputError, match=r"'ts_asc\.shp': {incidence_deg: 30.0, heading_deg: 350.0}"):
        read_points(tmp_path / "ts_asc.shp")
    products = "".join(f"    ts_{name}.shp: {{{view}}}\n" for name, view in VIEWS.items())
    found = answer(tmp_path, [tmp_path / f"ts_{name}.shp" for name in VIEWS], f"ingest:\n  products:\n{products}")
    assert found.status.tolist() == right.status.tolist() == ["ok"] * 36
    assert (found.severity_permille - right.severity_permille).abs().max() < ROUNDING_PERMILLE


def test_a_geometry_with_a_vector_in_place_of_an_incidence_is_used():
    source = open_points(CASES / "geometry-without-incidence" / "asc" / "timeseries.h5")
    track = all_points(source)
    base = read_points(CASES / "base" / "asc.csv")
    np.testing.assert_allclose(track.los, np.tile(base.los[0], (len(track), 1)), atol=2e-4)
    assert "the line of sight is that of los_east, los_north in inputs/geometryGeo.h5" in source.notes
