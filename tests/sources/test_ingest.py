import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plumbline.errors import InputError
from plumbline.params import Ingest
from plumbline.sources.buildings import load_buildings
from plumbline.sources.ingest import ingest
from plumbline.sources.points import load_points

from .make import egms, rows, squares, text, zipped

LABELS = "building_id,severity_permille,quadrant\nH0,1.2,NE\nH2,0.1,\n"


def seen_from(east: float) -> list[dict[str, str]]:
    """Four rows with another line of sight."""
    up = (1 - east**2) ** 0.5
    return [{**row, "los_east": f"{east:.3f}", "los_north": "0", "los_up": f"{up:.3f}"} for row in rows(4)]


@pytest.fixture
def city(tmp_path: Path) -> Path:
    folder = tmp_path / "raw" / "town"
    folder.mkdir(parents=True)
    egms(folder / "ascending.csv")
    zipped(folder / "descending.zip", {"d.xml": "<x/>", "d.csv": text(seen_from(-0.62))})
    squares().to_crs("EPSG:4326").to_file(folder / "footprints.geojson")
    (folder / "labels.csv").write_text(LABELS)
    (folder / "truth.csv").write_text("what,the,simulation,knows\n")
    (folder / "README.md").write_text("about")
    return folder


def test_a_city_becomes_three_tables_and_a_report(city, tmp_path):
    ingest([city], Ingest(min_coherence=0.55), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["ingest.json", "town"]
    tracks = load_points(tmp_path / "out" / "town" / "points.parquet")
    assert [(track.name, len(track)) for track in tracks] == [("ascending", 5), ("descending", 3)]
    np.testing.assert_array_equal(tracks[1].displacement[:, 0], np.array([1.0, 2.0, 3.0], np.float32))
    buildings = load_buildings(tmp_path / "out" / "town" / "buildings.parquet")
    assert buildings.crs == "EPSG:3035"
    assert buildings["building_id"].tolist() == ["H0", "H1", "H2"]
    labels = pd.read_parquet(tmp_path / "out" / "town" / "labels.parquet")
    assert labels["quadrant"].tolist() == ["NE", ""]
    report = json.loads((tmp_path / "out" / "ingest.json").read_text())["town"]
    assert report["products"] == ["ascending.csv", "descending.zip"]
    assert (report["footprints"], report["buildings"], report["labelled"]) == ("footprints.geojson", 3, 2)
    assert report["tracks"][0] == {
        "name": "ascending",
        "points_read": 6,
        "dropped": {"incoherent": 1},
        "points": 5,
        "epochs": 4,
        "first_epoch": "2020-01-03",
        "last_epoch": "2020-02-02",
    }


def test_the_same_input_gives_the_same_bytes(city, tmp_path):
    for name in ("one", "two"):
        ingest([city], Ingest(), tmp_path / name)
    for path in (tmp_path / "one").rglob("*.*"):
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes(), path


@pytest.mark.filterwarnings("ignore:Column names longer", "ignore:Normalized/laundered")
def test_footprints_may_be_a_zipped_shapefile(city, tmp_path):
    (city / "footprints.geojson").unlink()
    folder = tmp_path / "shape"
    folder.mkdir()
    squares().to_file(folder / "f.shp")
    zipped(city / "footprints.zip", {path.name: path.read_bytes() for path in folder.iterdir()})
    ingest([city], Ingest(), tmp_path / "out")
    assert len(load_buildings(tmp_path / "out" / "town" / "buildings.parquet")) == 3


def remove_labels(city: Path) -> None:
    (city / "labels.csv").unlink()


def label_a_stranger(city: Path) -> None:
    (city / "labels.csv").write_text(LABELS + "H9,0,\n")


def remove_products(city: Path) -> None:
    (city / "ascending.csv").unlink()
    (city / "descending.zip").unlink()


def remove_footprints(city: Path) -> None:
    (city / "footprints.geojson").unlink()


def add_footprints(city: Path) -> None:
    squares().to_file(city / "again.gpkg")


def move_footprints(city: Path) -> None:
    moved = squares()
    moved.geometry = moved.translate(5000, 0)
    moved.to_crs("EPSG:4326").to_file(city / "footprints.geojson")


def cut_zip(city: Path) -> None:
    path = city / "descending.zip"
    path.write_bytes(path.read_bytes()[:-60])


def repeat_name(city: Path) -> None:
    (city / "descending.csv").write_text(text(seen_from(0.4)))


def copy_product(city: Path) -> None:
    (city / "download (1).csv").write_bytes((city / "ascending.csv").read_bytes())


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (remove_labels, r"town: no labels\.csv in it\. Training needs labelled buildings"),
        (label_a_stranger, r"labels\.csv: 1 labelled buildings are not in .*footprints\.geojson: H9"),
        (remove_products, "town: no point product"),
        (remove_footprints, "town: one file of footprints is needed .* none found"),
        (add_footprints, r"one file of footprints is needed .* again\.gpkg, footprints\.geojson found"),
        (
            move_footprints,
            r"No overlap(.|\n)*ascending\.csv, .*descending\.zip(.|\n)*footprints\.geojson \(EPSG:4326\)",
        ),
        (cut_zip, r"descending\.zip: not readable as a zip \(it is cut off\)"),
        (repeat_name, "two products are named descending"),
        (copy_product, r"download \(1\)\.csv: 6 of its points are those of .*ascending\.csv"),
    ],
)
def test_a_faulty_city_is_refused_and_nothing_is_written(city, tmp_path, harm, message):
    harm(city)
    with pytest.raises(InputError, match=message):
        ingest([city], Ingest(), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw"]


def test_cities_must_be_there_and_differ_in_name(city, tmp_path):
    with pytest.raises(InputError, match="no city folder given"):
        ingest([], Ingest(), tmp_path / "out")
    with pytest.raises(InputError, match="nowhere: no such folder"):
        ingest([tmp_path / "nowhere"], Ingest(), tmp_path / "out")
    with pytest.raises(InputError, match="two city folders are named town"):
        ingest([city, city], Ingest(), tmp_path / "out")


def test_a_coherence_no_point_has_is_refused(city, tmp_path):
    with pytest.raises(InputError, match=r"ascending\.csv: no point has .* ingest\.min_coherence \(0\.99\)"):
        ingest([city], Ingest(min_coherence=0.99), tmp_path / "out")
