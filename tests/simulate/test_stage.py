import csv
from pathlib import Path

import geopandas
import numpy as np
import pytest
from pyarrow import csv as arrow_csv

from plumbline.compass import frames
from plumbline.files import sha256_folder
from plumbline.params import Simulate
from plumbline.simulate.city import PLACES, place
from plumbline.simulate.layout import draw_layout
from plumbline.simulate.stage import simulate
from plumbline.strain import category

PARAMS = Simulate.model_validate(
    {
        "cities": {
            "sentinel": {"band": "C", "buildings": 60, "seed": 1},
            "xband": {"band": "X", "buildings": 20, "seed": 1},
        },
        "showcase": {"band": "C", "buildings": 4, "seed": 1},
        "years": 1.5,
    }
)


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("stage") / "simulated"
    simulate(PARAMS, folder)
    return folder


def folders(out):
    return [out / "cities/sentinel", out / "cities/xband", out / "showcase"]


def labels(folder):
    with next(iter([*folder.glob("labels.csv"), *folder.glob("truth.csv")])).open() as stream:
        return list(csv.DictReader(stream))


def test_every_city_has_two_products_footprints_and_labels(out):
    for folder, truth in zip(folders(out), ("labels.csv", "labels.csv", "truth.csv"), strict=True):
        names = sorted(path.name for path in folder.iterdir())
        assert len(names) == 4
        assert names[0].startswith("EGMS_L2b_")
        assert names[1].startswith("EGMS_L2b_")
        assert names[2:] == ["footprints.geojson", truth]
    products = [path.name for path in out.rglob("EGMS*.csv")]
    assert len(set(products)) == 6


def test_the_same_parameters_give_the_same_bytes(out, tmp_path):
    simulate(PARAMS, tmp_path / "again")
    assert sha256_folder(tmp_path / "again") == sha256_folder(out)


def test_cities_of_the_same_seed_differ(out):
    first, second = (geopandas.read_file(folder / "footprints.geojson") for folder in folders(out)[::2])
    assert first.geometry.iloc[0].distance(second.geometry.iloc[0]) > 0.1  # degrees


def test_labels_and_footprints_name_the_same_buildings(out):
    for folder in folders(out):
        footprints = geopandas.read_file(folder / "footprints.geojson")
        rows = labels(folder)
        assert footprints.building_id.tolist() == [row["building_id"] for row in rows]
        assert footprints.building_id.is_unique
        assert footprints.crs.equals("EPSG:4326")
        assert footprints.height_m.between(3, 40).all()
        severity = np.array([float(row["severity_permille"]) for row in rows])
        named = np.array([row["quadrant"] != "" for row in rows])
        np.testing.assert_array_equal(named, category(severity) > 0)
        assert {row["quadrant"] for row in rows} <= {"", "NE", "NW", "SW", "SE"}


def test_footprints_keep_their_frame_through_degrees(out):
    seeds = np.random.SeedSequence([1, *b"sentinel"]).spawn(6)
    drawn = draw_layout(np.random.default_rng(seeds[1]), 60)
    read = geopandas.read_file(folders(out)[0] / "footprints.geojson").to_crs(3035)
    frame = frames(read.geometry.to_numpy())
    np.testing.assert_allclose(frame.centre - place(1), drawn.frames.centre, atol=2e-3)
    np.testing.assert_allclose(frame.side, drawn.frames.side, atol=2e-3)
    np.testing.assert_allclose(frame.angle, drawn.frames.angle, atol=1e-3)


def test_points_lie_about_the_footprints_and_two_coordinate_systems_agree(out):
    for folder in folders(out):
        footprints = geopandas.read_file(folder / "footprints.geojson").to_crs(3035)
        west, south, east, north = footprints.total_bounds
        for path in folder.glob("EGMS*.csv"):
            table = arrow_csv.read_csv(path)
            x, y = table["easting"].to_numpy(), table["northing"].to_numpy()
            assert west - 80 < x.min() < x.max() < east + 80
            assert south - 80 < y.min() < y.max() < north + 80
            points = geopandas.points_from_xy(table["longitude"].to_numpy(), table["latitude"].to_numpy(), crs=4326)
            again = points.to_crs(3035)
            assert np.hypot(again.x - x, again.y - y).max() < 0.12  # degrees to six decimals


def test_identifiers_are_unique_over_all_products(out):
    every = [pid for path in out.rglob("EGMS*.csv") for pid in arrow_csv.read_csv(path)["pid"].to_pylist()]
    assert len(set(every)) == len(every)


def test_damage_shows_as_displacement_and_the_intact_stay_whole(tmp_path):
    """Without failures no label is above what a tunnel does; with them most are."""

    def severities(damaged):
        params = PARAMS.model_copy(update={"damaged": damaged, "cities": {"one": PARAMS.cities["sentinel"]}})
        simulate(params, tmp_path / str(damaged))
        rows = labels(tmp_path / str(damaged) / "cities/one")
        assert {"local_failure" in row["scenario"] for row in rows} == {damaged == 1.0}
        return {row["building_id"]: float(row["severity_permille"]) for row in rows if row["scenario"] != "tunnel"}

    failed, intact = severities(1.0), severities(0.0)
    assert np.mean([severity >= 0.0999 for severity in failed.values()]) > 0.9
    assert len(intact) > 10
    assert set(intact.values()) == {0.0}


def test_a_failing_run_leaves_the_old_output(out, tmp_path, monkeypatch):
    target = tmp_path / "kept"
    simulate(PARAMS, target)
    before = sha256_folder(target)
    monkeypatch.setattr("plumbline.simulate.city.write_labels", None)
    with pytest.raises(TypeError):
        simulate(PARAMS, target)
    assert sha256_folder(target) == before
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_places_are_apart():
    centres = np.array([place(slot) for slot in range(3 * len(PLACES))])
    distance = np.linalg.norm(centres[:, None] - centres[None], axis=-1)
    assert distance[np.triu_indices(len(centres), 1)].min() > 20_000
