import csv
import io
from pathlib import Path

import geopandas
import numpy as np
import pytest
import shapely
from pyarrow import csv as arrow_csv

from plumbline.core.compass import frames
from plumbline.core.files import sha256_folder
from plumbline.core.strain import DIFFICULTIES, MECHANISMS, category
from plumbline.params import City, Simulate
from plumbline.simulate.city import FOOTPRINTS_BEGIN, FOOTPRINTS_END, TUNNELS, footprint_features
from plumbline.simulate.site import PART_BUILDINGS, PLACES, place
from plumbline.simulate.stage import simulate
from plumbline.simulate.structure.layout import DISTRICT_BUILDINGS
from plumbline.sources.city.causes import causes_of_city, read_causes
from plumbline.sources.city.window import Window
from plumbline.sources.points.epochs import velocity_mm_per_year
from tests.simulate.made import small_town
from tests.sources.points.opening import read_points

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


def with_city(buildings: int) -> Simulate:
    """A city `large` beside a showcase of four buildings."""
    cities = {"large": {"band": "C", "buildings": buildings, "seed": 5, "revisit_days": 24}}
    return Simulate.model_validate({"cities": cities, "showcase": {"band": "C", "buildings": 4, "seed": 1}, "years": 3})


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
        names = sorted(path.name for path in folder.iterdir() if path.name != TUNNELS)
        assert len(names) == 4
        assert names[0].startswith("EGMS_L2b_")
        assert names[1].startswith("EGMS_L2b_")
        assert names[2:] == ["footprints.geojson", truth]
    products = [path.name for path in out.rglob("EGMS*.csv")]
    assert len(set(products)) == 6


TOWN = {"band": "C", "buildings": 400, "seed": 99, "years": 4.0, "damaged": 0.04, "movement": "town"}


@pytest.fixture(scope="module")
def town(tmp_path_factory) -> Path:
    """The output of the stage with a showcase that moves as a real town."""
    folder = tmp_path_factory.mktemp("town") / "simulated"
    simulate(PARAMS.model_copy(update={"showcase": City.model_validate(TOWN)}), folder)
    return folder


def test_a_town_moves_as_egms_shows_towns(town):
    """EGMS at Ustica: standard deviation of 0.9 to 1.0 mm a year, of 0.6 to 0.7 without the tails."""
    for path in (town / "showcase").glob("EGMS*.csv"):
        track = read_points(path)
        rates = velocity_mm_per_year(track.displacement, track.epochs)
        rates -= np.median(rates)
        assert 0.5 < 1.4826 * np.median(np.abs(rates)) < 1.5
        assert rates.std() < 3
        assert np.abs(track.displacement).max() < 150


def test_few_buildings_of_a_town_are_damaged_and_most_of_them_beside_its_tunnel(town):
    rows = labels(town / "showcase")
    damaged = [row for row in rows if float(row["severity_permille"]) >= 0.5]
    assert 0.02 <= len(damaged) / len(rows) <= 0.05
    over = [row for row in damaged if "tunnel" in row["scenario"]]
    assert len(damaged) / 2 < len(over) < len(damaged)


def test_the_tunnel_of_a_town_is_a_file_of_causes_that_reaches_its_buildings(town):
    folder = town / "showcase"
    footprints = geopandas.read_file(folder / "footprints.geojson").to_crs(3035)
    file = read_causes(folder / TUNNELS, {})
    (cause,) = causes_of_city(file, "EPSG:3035", Window(None, None))
    assert cause.name == "tunnel 1"
    distance = footprints.distance(cause.geometry)
    over = np.array(["tunnel" in row["scenario"] for row in labels(folder)])
    assert distance[over].max() < 80 < distance[~over].median()


def test_the_showcase_changes_no_city_for_training(out, town):
    assert sha256_folder(town / "cities") == sha256_folder(out / "cities")
    assert not list((out / "cities").rglob(TUNNELS))


def test_the_same_parameters_give_the_same_bytes(out, tmp_path):
    simulate(PARAMS, tmp_path / "again")
    assert sha256_folder(tmp_path / "again") == sha256_folder(out)


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_bytes(tmp_path):
    for workers in (1, 2):
        simulate(with_city(2 * PART_BUILDINGS + 70), tmp_path / str(workers), workers)
    assert sha256_folder(tmp_path / "1") == sha256_folder(tmp_path / "2")


def test_parts_make_one_city(tmp_path, monkeypatch):
    """Of three parts, the last one not full."""
    monkeypatch.setattr("plumbline.simulate.site.PART_BUILDINGS", DISTRICT_BUILDINGS)
    monkeypatch.setattr("plumbline.simulate.city.PART_BUILDINGS", DISTRICT_BUILDINGS)
    monkeypatch.setattr("plumbline.simulate.city.PART_DISTRICTS", 1)
    buildings = 2 * DISTRICT_BUILDINGS + 20
    simulate(with_city(buildings), tmp_path / "out", workers=1)
    folder = tmp_path / "out/cities/large"
    assert sorted(path.name[:4] for path in folder.iterdir()) == ["EGMS", "EGMS", "foot", "labe"]
    rows = labels(folder)
    footprints = geopandas.read_file(folder / "footprints.geojson")
    assert len(rows) == len(footprints) == buildings
    assert footprints.building_id.tolist() == [row["building_id"] for row in rows]
    assert footprints.building_id.is_unique
    polygon = footprints.to_crs(3035).geometry.to_numpy()
    pairs = shapely.STRtree(polygon).query(polygon, predicate="intersects")
    assert (pairs[0] == pairs[1]).all()
    tables = [arrow_csv.read_csv(path) for path in sorted(folder.glob("EGMS*.csv"))]
    every = [pid for table in tables for pid in table["pid"].to_pylist()]
    assert len(set(every)) == len(every)
    tree = shapely.STRtree(polygon)
    for table in tables:
        at = shapely.points(table["easting"].to_numpy(), table["northing"].to_numpy())
        assert tree.query_nearest(at, return_distance=True)[1].max() < 80
        # Points of all parts are there, and of one region: no part has a velocity or a level of its own.
        third = np.array_split(table["mean_velocity"].to_numpy(), 3)
        assert np.ptp([np.median(part) for part in third]) < 4


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
        assert all(row["quadrant"] in row["accepted"].split("|") for row in rows)
        assert {row["mechanism"] for row in rows if row["quadrant"]} <= set(MECHANISMS)
        assert not any(row["accepted"] or row["mechanism"] for row in rows if not row["quadrant"])
        assert list(rows[0]) == [
            *("building_id", "severity_permille", "quadrant", "accepted", "mechanism", "scenario", "difficulty")
        ]
        assert {row["difficulty"] for row in rows} <= set(DIFFICULTIES)


def test_footprints_keep_their_frame_through_degrees():
    polygon = small_town(np.random.default_rng(2), 60).polygon
    drawn = frames(polygon)
    there = shapely.transform(polygon, lambda at: at + np.array(place(1)))
    text = FOOTPRINTS_BEGIN + footprint_features([str(i) for i in range(60)], there, None) + FOOTPRINTS_END
    read = geopandas.read_file(io.BytesIO(text.encode())).to_crs(3035)
    frame = frames(read.geometry.to_numpy())
    np.testing.assert_allclose(frame.centre - place(1), drawn.centre, atol=2e-3)
    np.testing.assert_allclose(frame.side, drawn.side, atol=2e-3)
    np.testing.assert_allclose(frame.angle, drawn.angle, atol=1e-3)
    assert all(polygon.exterior.is_ccw for polygon in geopandas.read_file(io.BytesIO(text.encode())).geometry)


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


def test_damage_shows_as_displacement_and_the_intact_stay_whole(tmp_path):
    """Without failures no label is above what a tunnel does; with them most are."""

    def severities(damaged, kind):
        params = PARAMS.model_copy(update={"damaged": damaged, "cities": {"one": PARAMS.cities["sentinel"]}})
        simulate(params, tmp_path / str(damaged))
        rows = labels(tmp_path / str(damaged) / "cities/one")
        failing = np.mean(["local_failure" in row["scenario"] for row in rows])
        assert failing > 0.85 if damaged else failing == 0  # a few would have to drop too far
        return {row["building_id"]: float(row["severity_permille"]) for row in rows if row["scenario"] == kind}

    failed, intact = severities(1.0, "local_failure"), severities(0.0, "intact")
    assert np.mean([severity >= 0.0999 for severity in failed.values()]) > 0.9
    assert len(intact) > 10
    assert set(intact.values()) == {0.0}


def test_places_are_apart():
    centres = np.array([place(slot) for slot in range(3 * len(PLACES))])
    distance = np.linalg.norm(centres[:, None] - centres[None], axis=-1)
    assert distance[np.triu_indices(len(centres), 1)].min() > 20_000
