"""Footprints as people have them: each folder of `fixtures/cases` holds those of `base` in another form."""

from pathlib import Path

import geopandas
import pytest
import shapely

from plumbline.sources.footprints.buildings import read_buildings

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
BASE = CASES / "base"
CRS = "EPSG:3035"


@pytest.fixture(scope="module")
def base() -> geopandas.GeoDataFrame:
    return read_buildings(BASE / "fp.gpkg", CRS)


def test_google_open_buildings_are_at_the_same_place_without_a_crs_in_the_file(base):
    read = read_buildings(CASES / "google-open-buildings" / "google_13b.csv.gz", CRS)
    assert read.attrs["source_crs"] == "EPSG:4326"
    assert shapely.hausdorff_distance(read.geometry.to_numpy(), base.geometry.to_numpy()).max() < 0.01
    assert read["building_id"].tolist()[:2] == ["8FHJ0000+XX", "8FHJ0001+XX"]
