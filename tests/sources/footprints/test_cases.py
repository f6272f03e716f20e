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


@pytest.mark.parametrize("file", ["wfs_adv.gml", "wfs_zone.gml", "city_zone.gml"])
def test_names_of_crs_as_german_agencies_write_them(file):
    """`urn:adv:crs:ETRS89_UTM32`, also with the zone before the easting."""
    truth = read_buildings(CASES / "adv-names" / "fp.gpkg", CRS).geometry.to_numpy()
    read = read_buildings(CASES / "adv-names" / file, CRS)
    assert read.attrs["source_crs"] == "EPSG:25832"
    assert shapely.hausdorff_distance(read.geometry.to_numpy(), truth).max() < 0.01


def test_a_zone_before_the_easting_is_taken_off_in_any_format(tmp_path):
    truth = read_buildings(CASES / "adv-names" / "fp.gpkg", "EPSG:25832")
    truth.set_geometry(truth.translate(32e6)).set_crs(25832, allow_override=True).to_file(tmp_path / "f.gpkg")
    read = read_buildings(tmp_path / "f.gpkg", CRS)
    assert shapely.hausdorff_distance(read.geometry.to_numpy(), truth.to_crs(CRS).geometry.to_numpy()).max() < 0.01
    # EPSG:4647 has the zone in its eastings.
    truth.to_crs(4647).to_file(tmp_path / "zone.gpkg")
    read = read_buildings(tmp_path / "zone.gpkg", CRS)
    assert shapely.hausdorff_distance(read.geometry.to_numpy(), truth.to_crs(CRS).geometry.to_numpy()).max() < 0.01
