"""A delivery among the borrowed cities, and everything as it was where it is taken back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from plumbline.core.errors import InputError
from plumbline.core.files import sha256_folder
from plumbline.params import parse_params
from plumbline.params.simulate import Borrowed, Mechanisms
from plumbline.serve.score import lend_to_training as lending
from plumbline.serve.score.lend_to_training import city_of, lend, take_back
from plumbline.simulate.borrowed.city import write_borrowed
from tests.refusals import refuses
from tests.serve.score.conftest import PLACE, Town
from tests.tiny import PARAMS, City


def test_no_two_places_lend_as_one_city():
    places = ["town_a", "Town A", "town-a", "TOWN_A", "Zürich", "Zörich", "東京", "京都"]
    cities = [city_of(place) for place in places]
    assert cities[0] == "town_a"
    assert len(set(cities)) == len(places)
    about = {"folder": "data/borrowed/x"}
    for city in cities:
        parse_params({**PARAMS, "simulate": {**PARAMS["simulate"], "borrowed": {city: about}}})


@pytest.fixture(scope="module")
def scored(city: City, package: Path, tmp_path_factory: pytest.TempPathFactory) -> Town:
    """A project with the result of a delivery."""
    town = Town(city, tmp_path_factory.mktemp("scored"), package)
    town.deliver("first", every=3)
    assert town.score().code == 0
    return town


@pytest.fixture
def delivered(scored: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of the result of a delivery, in a project of the test's own that is the working directory."""
    shutil.copytree(scored.folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return next(iter(scored.results().values())).name


def state() -> str | None:
    """Of what lending changes."""
    borrowed = Path("data/borrowed")
    return sha256_folder(borrowed) if borrowed.is_dir() else None


def stopped(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_is_taken_back_or_was_left_by_a_killed_run_is_as_it_was(delivered: str, monkeypatch: pytest.MonkeyPatch):
    Path(f"data/borrowed/{PLACE}").mkdir(parents=True)
    Path(f"data/borrowed/{PLACE}/older.csv").touch()
    Path(f"data/borrowed/{PLACE}.yaml").write_text("folder: x")
    before = state()
    assert lend(PLACE, delivered) == PLACE
    assert state() != before
    take_back(PLACE)
    assert state() == before
    assert not list(Path(".plumbline/lent").iterdir())

    lend(PLACE, delivered)  # and killed
    with pytest.raises(InputError):
        lend(PLACE, "nothing")
    assert state() == before

    monkeypatch.setattr(lending.log, "info", stopped)
    with pytest.raises(KeyboardInterrupt):
        lend(PLACE, delivered)
    assert state() == before
    assert not list(Path(".plumbline/lent").iterdir())


def test_an_invented_city_keeps_its_name(delivered: str):
    content = yaml.safe_load(Path("params.yaml").read_text())
    content["simulate"]["cities"][PLACE] = next(iter(content["simulate"]["cities"].values()))
    Path("params.yaml").write_text(yaml.safe_dump(content))
    before = state()
    with refuses("cities.repeated_name", f"simulate.cities.{PLACE}"):
        lend(PLACE, delivered)
    assert state() == before


def test_a_delivery_that_has_changed_since_it_was_judged_is_not_lent(delivered: str):
    (path, *_) = sorted(Path(parse_params(PARAMS).score.source, PLACE, "first").glob("*.csv"))
    path.write_text("other")
    before = state()
    with refuses("delivery.other_file", path, "not the file that"):
        lend(PLACE, delivered)
    assert state() == before


def test_what_made_the_delivery_readable_is_lent_with_it(town: Town, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(town.folder)
    named = {"pid": "nr", "easting": "x, m", "northing": "y, m", "height_ortho": "h"}
    los = ["los_east", "los_north", "los_up"]
    for number, (name, table) in enumerate(sorted(town.products.items())):
        days = [column for column in table if column.isdigit()]
        own = table[[*named, *los, *days]].rename(columns=named)
        town.products[f"Café_{number}.csv"] = own.rename(columns={day: f"D{day}" for day in days})
        del town.products[name]
    roles = {"point_id": "nr", "easting": "x, m", "northing": "y, m", "height": "h"} | {one: one for one in los}
    about = {
        "columns": roles,
        "crs": "EPSG:3035",
        "units": {"displacement": "mm"},
        "positive": "towards",
        "epochs": "D",
        "separator": ",",
    }
    products = {"other*": {"track": "of no file"}, "Café_*.csv": about, "*.csv": {"track": "comes too late"}}
    stated = {"*.geojson": {"id_column": "building_id"}, "*": {"layer": "of no file"}}
    content = PARAMS | {"ingest": {"products": products, "footprints": stated}, "score": {"settle_s": 0}}
    Path("params.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    town.deliver("first")
    ended = town.score()
    assert ended.code == 0, ended.err
    lend(PLACE, next(iter(town.results().values())).name)
    said = yaml.safe_load(Path(f"data/borrowed/{PLACE}.yaml").read_text())
    lent = Borrowed.model_validate(said)
    assert said["products"] == {"Café_*.csv": about}
    assert said["footprints"] == {"*.geojson": {"id_column": "building_id"}}
    write_borrowed(Path("cities"), PLACE, lent, 0, damaged=0.5, mechanisms=Mechanisms())
    assert {path.name for path in Path("cities", PLACE).iterdir()} == {
        "Café_0.csv",
        "Café_1.csv",
        "footprints.geojson",
        "labels.csv",
    }
