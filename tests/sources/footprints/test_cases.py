"""Footprints as people have them: each folder of `fixtures/cases` holds those of `base` in another form."""

from pathlib import Path

import geopandas
import numpy as np
import pytest
import shapely

from plumbline.pretrained import PACKAGE
from plumbline.serve.options import Options
from plumbline.serve.predict import predict
from plumbline.serve.request import Request
from plumbline.sources.city.in_memory import Reading
from plumbline.sources.footprints.buildings import read_buildings
from tests.refusals import warning_keys

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
BASE = CASES / "base"
POINTS = [BASE / "asc.csv", BASE / "des.csv"]
CRS = "EPSG:3035"
FEWER_DIGITS = 0.05
"""Permille that a severity may differ by where numbers are written with fewer digits."""
OTHERS = {"google-open-buildings": ("google_13b.csv.gz", None), "mojibake-ids": ("enc.shp", "NAME")}
"""Folder -> its file, and the column of its ids."""


@pytest.fixture(scope="module")
def base() -> geopandas.GeoDataFrame:
    return read_buildings(BASE / "fp.gpkg", CRS)


@pytest.fixture(scope="module")
def answer(tmp_path_factory) -> geopandas.GeoDataFrame:
    return predict(Request(POINTS, BASE / "fp.gpkg", PACKAGE), tmp_path_factory.mktemp("base") / "out.csv")


def test_texts_in_utf_8_without_a_cpg_are_as_they_were_written(base, caplog):
    read = read_buildings(CASES / "mojibake-ids" / "enc.shp", CRS, id_column="NAME")
    assert read["building_id"].tolist() == [f"Höhe Straße {number}" for number in range(36)]
    assert shapely.equals(read.geometry.to_numpy(), base.geometry.to_numpy()).all()
    assert not warning_keys(caplog)


def test_google_open_buildings_are_at_the_same_place_without_a_crs_in_the_file(base):
    read = read_buildings(CASES / "google-open-buildings" / "google_13b.csv.gz", CRS)
    assert read.attrs["source_crs"] == "EPSG:4326"
    assert shapely.hausdorff_distance(read.geometry.to_numpy(), base.geometry.to_numpy()).max() < 0.01
    assert read["building_id"].tolist()[:2] == ["8FHJ0000+XX", "8FHJ0001+XX"]


@pytest.mark.slow
@pytest.mark.parametrize("folder", OTHERS)
def test_the_answer_is_the_same_one(answer, tmp_path, folder):
    name, ids = OTHERS[folder]
    options = Options(Reading(id_column=ids))
    other = predict(Request(POINTS, CASES / folder / name, PACKAGE, options), tmp_path / "out.csv")
    assert other["status"].tolist() == answer["status"].tolist()
    assert other["quadrant"].tolist() == answer["quadrant"].tolist()
    np.testing.assert_allclose(other["severity_permille"], answer["severity_permille"], atol=FEWER_DIGITS)
