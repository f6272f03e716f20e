import json
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pyproj
import shapely

from plumbline.params import Borrowed, Ingest, Prepare
from plumbline.params.simulate import Mechanisms
from plumbline.prepare.split import ground_crs, one_ground
from plumbline.prepare.stage import prepare
from plumbline.prepare.tiles import CENTRE, TILE
from plumbline.simulate.borrowed.city import write_borrowed
from plumbline.sources.city.ingest import ingest
from tests.prepare.made import SPLITS
from tests.refusals import refuses

CRS = "EPSG:3035"
SOUTH = "EPSG:32756"
DATES = np.datetime64("2019-03-01") + np.arange(60) * 12
ROLES = "point_id easting northing height los_east los_north los_up"
DESCRIBED = {
    "columns": dict(zip(ROLES.split(), ["id", "x", "y", "h", "le", "ln", "lu"], strict=True)),
    "units": {"displacement": "mm"},
    "positive": "towards",
    "epochs": "D%Y%m%d",
    "crs": SOUTH,
}
BLOCK_M = 60.0
PARAMS = Prepare(block_m=BLOCK_M, split=SPLITS)


def town(east: float, north: float) -> np.ndarray:
    return np.array([east, north]) + np.random.default_rng(0).uniform(0, 1000, (50, 2))


def test_cities_on_the_same_ground_are_one_place_in_one_crs():
    original = town(4_300_000, 3_200_000)
    to = pyproj.Transformer.from_crs(CRS, "EPSG:32632", always_xy=True)
    elsewhere = np.stack(to.transform(*original.T), axis=1)
    centre = {"a": original, "b": town(4_400_000, 3_200_000), "a--2": original.copy(), "in_utm": elsewhere}
    place, moved = one_ground(centre, {"a": CRS, "b": CRS, "a--2": CRS, "in_utm": "EPSG:32632"})
    assert place == {"a": "a", "b": "b", "a--2": "a", "in_utm": "a"}
    assert list(moved) == list(centre)
    np.testing.assert_allclose(moved["in_utm"], original, atol=1e-3)
    np.testing.assert_array_equal(moved["b"], centre["b"])


def test_cities_that_a_third_one_joins_are_one_place():
    """Two towns apart, and a survey over both: a block of either is a block of the survey."""
    both = np.concatenate([town(0, 0), town(9000, 0)])
    centre = {"w": town(0, 0), "e": town(9000, 0), "both": both, "n": town(0, 9000)}
    place, _ = one_ground(centre, dict.fromkeys(centre, CRS))
    assert place == {"w": "w", "e": "w", "both": "w", "n": "n"}


def test_ground_that_another_crs_cannot_show_is_another_place():
    centre = {"a": town(500_000, 5_000_000), "b": town(500_000, 5_000_000)}
    place, moved = one_ground(centre, {"a": "EPSG:32601", "b": "EPSG:32731"})
    assert place == {"a": "a", "b": "b"}
    np.testing.assert_array_equal(moved["b"], centre["b"])


def test_a_city_without_buildings_is_a_place_of_its_own():
    place, moved = one_ground({"empty": np.zeros((0, 2)), "b": town(0, 0)}, {"b": CRS})
    assert place == {"empty": "empty", "b": "b"}
    assert moved["empty"].shape == (0, 2)


def test_tiles_that_name_different_ground_are_refused(tmp_path):
    files = [tmp_path / name for name in ("1.json", "2.json", "3.json")]
    for path, crs in zip(files, (CRS, CRS, SOUTH), strict=True):
        path.write_text(json.dumps({"crs": crs}))
    assert ground_crs([("a", files[0]), ("a", files[1]), ("b", files[2])]) == {"a": CRS, "b": SOUTH}
    with refuses("ground.not_one_crs", "footprints of a: column ground_crs: EPSG:3035, EPSG:32756"):
        ground_crs([("a", files[0]), ("a", files[2])])


def write_original(folder: Path) -> None:
    """A city on the southern half of the globe, with labels of its own."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(2)
    corner = np.array([334_007.0, 6_252_011.0]) + 40.0 * np.stack(np.divmod(np.arange(48), 8), axis=1)
    names = [f"h{number}" for number in range(48)]
    boxes = shapely.box(*corner.T, *np.add(corner, (18, 15)).T)
    geopandas.GeoDataFrame({"building_id": names}, geometry=boxes, crs=SOUTH).to_file(folder / "f.gpkg")
    place = np.repeat(corner, 14, axis=0) + rng.uniform(1, 14, (48 * 14, 2))
    table = pd.DataFrame({"id": range(len(place)), "x": place[:, 0].round(3), "y": place[:, 1].round(3), "h": 5.0})
    table["le"], table["ln"], table["lu"] = 0.6, -0.1, np.sqrt(1 - 0.37)
    series = rng.normal(0, 2, (len(place), len(DATES))).round(2)
    days = [f"D{str(day).replace('-', '')}" for day in DATES]
    pd.concat([table, pd.DataFrame(series, columns=days)], axis=1).to_csv(folder / "points.csv", index=False)
    severity = np.where(np.arange(48) % 3, 0.1, 2.0)
    quadrant = np.where(severity > 1, np.resize(["NE", "NW", "SW", "SE"], 48), "")
    labels = pd.DataFrame({"building_id": names, "severity_permille": severity, "quadrant": quadrant})
    labels.to_csv(folder / "labels.csv", index=False)


def test_a_city_borrowed_in_utm_and_its_original_are_split_as_one(tmp_path, monkeypatch):
    """The borrowed copies lie in another country; yet no block of their ground is in two splits."""
    monkeypatch.chdir(tmp_path)
    write_original(tmp_path / "raw" / "sydney")
    about = Borrowed.model_validate(
        {"folder": tmp_path / "raw" / "sydney", "products": {"points.csv": DESCRIBED}, "copies": 2}
    )
    write_borrowed(tmp_path / "cities", "lent", about, 3, damaged=0.7, mechanisms=Mechanisms())
    folders = [tmp_path / "cities" / "lent", tmp_path / "cities" / "lent--2", tmp_path / "raw" / "sydney"]
    sections = {"tile_m": 200, "products": {"points.csv": DESCRIBED}}
    for path in folders[:2]:  # a borrowed city is written as EGMS; its description must not be that of the original
        (path / "points.csv").rename(path / "lent.csv")
    ingest(folders, Ingest.model_validate(sections), tmp_path / "in")
    kept = {}
    monkeypatch.setattr("plumbline.prepare.stage.clear", lambda work: kept.update(work=work))
    prepare(tmp_path / "in", PARAMS, tmp_path / "out")

    centres, crss = {}, set()
    for city in ("lent", "lent--2", "sydney"):
        tiles = sorted((kept["work"] / city).iterdir())
        assert len(tiles) > 1
        crss |= {json.loads((tile / TILE).read_text())["crs"] for tile in tiles}
        for tile in tiles:
            ids = np.load(tile / "sequences" / "building_id.npy").astype(str)
            centres |= {(city, name): place for name, place in zip(ids, np.load(tile / CENTRE), strict=True)}
    assert crss == {SOUTH}
    for (city, name), place in centres.items():  # to the last bit: else an edge of a block could come between
        np.testing.assert_array_equal(place, centres["sydney", name.split("--")[0]], err_msg=f"{city} {name}")

    sides: dict[tuple[float, float], set[str]] = {}
    for split in PARAMS.split:
        for shard in sorted((tmp_path / "out" / split).iterdir()):
            for city, name in zip(np.load(shard / "city.npy"), np.load(shard / "building_id.npy"), strict=True):
                block = tuple(np.floor(centres[str(city), str(name)] / BLOCK_M))
                sides.setdefault(block, set()).add(split)
    assert len(sides) > 10
    assert all(len(found) == 1 for found in sides.values())
    assert {name for found in sides.values() for name in found} == set(PARAMS.split)
