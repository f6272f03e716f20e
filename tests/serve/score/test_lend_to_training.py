"""One line more in a parameters file that is somebody's own, and everything else as it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from plumbline.core.errors import InputError
from plumbline.core.files import sha256_folder
from plumbline.params import load_params, parse_params
from plumbline.params.simulate import Mechanisms
from plumbline.serve.score import lend_to_training as lending
from plumbline.serve.score.lend_to_training import city_of, lend, take_back, with_borrowed
from plumbline.simulate.borrowed.city import write_borrowed
from tests.serve.score.conftest import PLACE, Town
from tests.tiny import PARAMS, City, empty_registry

ENTRY = {"folder": "data/borrowed/town", "seed": 7, "copies": 2, "band": "X"}
PLAIN = yaml.safe_dump(PARAMS)


def commented(simulate: str = "") -> str:
    rest = yaml.safe_dump({key: value for key, value in PARAMS.items() if key != "simulate"})
    cities = yaml.safe_dump(PARAMS["simulate"]["cities"], default_flow_style=True, width=1000).strip()
    showcase = yaml.safe_dump(PARAMS["simulate"]["showcase"], default_flow_style=True).strip()
    return (
        f"# Mine\nsimulate: # too\n  # and here\n  cities: {cities}\n{simulate}  showcase: {showcase}\n\n# rest\n{rest}"
    )


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        commented(),
        commented("  borrowed:\n    older: {folder: data/borrowed/older}  # mine\n"),
        commented("  borrowed:\n    town: {folder: data/borrowed/town, seed: 1}\n"),
        commented("  borrowed:\n"),
    ],
)
def test_the_line_is_there_and_all_others_stay(text: str):
    changed = with_borrowed(text, "town", ENTRY, "params.yaml")
    before, after = yaml.safe_load(text), yaml.safe_load(changed)
    assert after["simulate"]["borrowed"].pop("town") == ENTRY
    (before["simulate"].get("borrowed") or {}).pop("town", None)
    assert (after["simulate"].pop("borrowed") or {}) == (before["simulate"].pop("borrowed", None) or {})
    assert after == before
    own = [line for line in text.splitlines() if "    town:" not in line]
    assert [line for line in changed.splitlines() if line in own] == own
    assert with_borrowed(changed, "town", ENTRY, "params.yaml") == changed


@pytest.mark.parametrize("city", ["2024", "08111", "1_000", "1e5", "no", "null"])
def test_a_place_may_have_a_number_or_a_word_of_yaml_for_its_name(city: str):
    changed = with_borrowed(commented(), city, ENTRY, "params.yaml")
    assert yaml.safe_load(changed)["simulate"]["borrowed"] == {city: ENTRY}
    assert list(parse_params(yaml.safe_load(changed)).simulate.borrowed) == [city]
    again = with_borrowed(changed, city, {**ENTRY, "seed": 8}, "params.yaml")
    assert yaml.safe_load(again)["simulate"]["borrowed"] == {city: {**ENTRY, "seed": 8}}


@pytest.mark.parametrize("borrowed", ["  borrowed: {}\n", "  borrowed: {older: {folder: x}}\n"])
def test_what_no_line_can_be_put_into_is_left_to_the_user(borrowed: str):
    with pytest.raises(InputError, match=r"Write below simulate\.borrowed: town: \{folder: data/borrowed/town"):
        with_borrowed(commented(borrowed), "town", ENTRY, "params.yaml")


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
    folder = tmp_path_factory.mktemp("scored")
    shutil.copy(empty_registry(tmp_path_factory), folder)
    town = Town(city, folder, package)
    town.deliver("first", every=3)
    assert town.score().code == 0
    return town


@pytest.fixture
def delivered(scored: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of the result of a delivery, in a project of the test's own that is the working directory."""
    shutil.copytree(scored.folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return next(iter(scored.results().values())).name


def state() -> tuple[str, str | None]:
    """Of what lending changes."""
    borrowed = Path("data/borrowed")
    return Path("params.yaml").read_text(), sha256_folder(borrowed) if borrowed.is_dir() else None


def stopped(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_is_taken_back_or_was_left_by_a_killed_run_is_as_it_was(delivered: str, monkeypatch: pytest.MonkeyPatch):
    Path(f"data/borrowed/{PLACE}").mkdir(parents=True)
    Path(f"data/borrowed/{PLACE}/older.csv").touch()
    before = state()
    assert lend(PLACE, delivered) == PLACE
    assert state()[0] != before[0]
    assert state()[1] != before[1]
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


def test_lines_that_end_as_on_windows_go_on_doing_so(delivered: str):
    path = Path("params.yaml")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    before = path.read_bytes()
    lend(PLACE, delivered)
    lent = path.read_bytes()
    assert lent.count(b"\n") == lent.count(b"\r\n") > before.count(b"\n")
    take_back(PLACE)
    assert path.read_bytes() == before


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
    (lent,) = load_params().simulate.borrowed.values()
    said = yaml.safe_load(Path("params.yaml").read_text())["simulate"]["borrowed"][PLACE]
    assert said["products"] == {"Café_*.csv": about}
    assert said["footprints"] == {"*.geojson": {"id_column": "building_id"}}
    write_borrowed(Path("cities"), PLACE, lent, 0, 0.5, Mechanisms())
    assert {path.name for path in Path("cities", PLACE).iterdir()} == {
        "Café_0.csv",
        "Café_1.csv",
        "footprints.geojson",
        "labels.csv",
    }


@pytest.mark.parametrize(
    "simulate", ["", "  borrowed:\n    older: {folder: x}\n", "  borrowed:\n    showtown: {folder: older}\n"]
)
def test_what_somebody_writes_meanwhile_stays(delivered: str, simulate: str, caplog: pytest.LogCaptureFixture):
    params, town = Path("params.yaml"), "    showtown: {"
    params.write_text(commented(simulate) + "score: {settle_s: 0}\n")
    before = params.read_text()
    lend(PLACE, delivered)
    params.write_text(params.read_text().replace("# Mine", "# Mine\n# and new").replace("settle_s: 0", "settle_s: 5"))
    take_back(PLACE)
    assert params.read_text() == before.replace("# Mine", "# Mine\n# and new").replace("settle_s: 0", "settle_s: 5")
    assert not caplog.text

    lend(PLACE, delivered)
    edited = params.read_text().replace(town, town + "damaged: 0.5, ")
    params.write_text(edited)
    with caplog.at_level("WARNING", "plumbline"):
        take_back(PLACE)
    assert params.read_text() == edited
    assert "params.yaml was changed meanwhile and stays as it is: mend simulate.borrowed.showtown by" in caplog.text

    # Taken out by hand, it is no news.
    params.write_text(before)
    lend(PLACE, delivered)
    params.write_text(before + "# more\n")
    caplog.clear()
    take_back(PLACE)
    assert params.read_text() == before + "# more\n"
    assert not caplog.text
