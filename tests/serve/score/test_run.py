"""`plumbline score` on real deliveries: what it publishes, what it leaves, and what a kill costs."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pytest

import plumbline
from plumbline.core.errors import InputError, NotWritable
from plumbline.core.files import check_writable, sha256_file, sha256_folder
from plumbline.export.package import verify_package
from plumbline.serve.predictions import read_predictions
from plumbline.serve.score import publish as publishing
from plumbline.serve.score.run import score
from tests.refusals import refuses
from tests.serve.map.town import document_in
from tests.serve.score.conftest import PLACE, Town
from tests.tiny import empty_registry, run_cli
from tests.waiting import until


def histories_of(page: Path) -> dict[str, tuple[set[str], set[str]]]:
    """Of each building on a map: the points that are its own, and those beside it."""
    document = document_in(page)
    series, names = document["histories"]["series"], [one["properties"] for one in document["buildings"]["features"]]
    points = {kind: document["histories"][kind] for kind in ("buildings", "beside")}
    return {
        about["building_id"]: tuple({series[k]["id"] for k in part.get(str(row), [])} for part in points.values())
        for row, about in enumerate(names)
    }


def test_deliveries_are_judged_as_predict_judges_and_compared_in_the_order_of_time(trained_town: Town):
    town = trained_town
    town.settings(tile_m=150, drift={"min_buildings": 20})
    first = town.deliver("first", last=town.days[-3])
    ended = town.score()
    assert ended.code == 0, ended.err
    (result,) = town.results().values()
    points = [word for path in sorted(first.glob("*.csv")) for word in ("--points", path)]
    asked = ("--buildings", first / "footprints.geojson", "--model", town.package, "--map", "plain.html")
    plain = run_cli("predict", *points, *asked, "--output", "plain.gpkg", cwd=town.folder)
    assert plain.code == 0, plain.err
    found, wanted = read_predictions(result / "predictions.gpkg"), read_predictions(town.folder / "plain.gpkg")
    pd.testing.assert_frame_equal(pd.DataFrame(found), pd.DataFrame(wanted), atol=1e-4)
    (told,) = re.findall("INFO (.*90 % interval .*)", plain.err)
    assert f"INFO {PLACE}: {told}" in ended.err

    manifest = json.loads((result / "manifest.json").read_text())
    assert manifest["model"]["version"] == verify_package(town.package).version
    assert manifest["inputs"] == {
        path.name: {"sha256": sha256_file(path), "bytes": path.stat().st_size} for path in sorted(first.iterdir())
    }
    assert {name: about["sha256"] for name, about in manifest["files"].items()} == {
        name: sha256_file(result / name) for name in ("drift.json", "map.html", "predictions.gpkg")
    }
    assert manifest["damage_rate"]["rate"] == pytest.approx(found["damage_rate"].max())
    assert manifest["damage_rate"]["low"] <= manifest["damage_rate"]["rate"] <= manifest["damage_rate"]["high"]
    assert manifest["tiles"] > 3
    assert sum(manifest["statuses"].values()) == manifest["buildings"] == len(found)
    assert sum(manifest["categories"].values()) == manifest["statuses"]["ok"]
    assert manifest["compared_with"] is None
    drawn = {one["properties"]["building_id"] for one in document_in(result / "map.html")["buildings"]["features"]}
    assert drawn == set(found["building_id"])
    of_tiles, of_whole = (histories_of(path) for path in (result / "map.html", town.folder / "plain.html"))
    assert of_tiles == of_whole
    assert any(beside for _, beside in of_whole.values())

    # The whole series, and after it a delivery that comes late and ends in between.
    town.deliver("second")
    assert town.score().code == 0
    town.deliver("late", last=town.days[-2])
    ended = town.score()
    assert ended.code == 0
    assert "second" not in ended.err.split("late")[0]  # known, and not judged again
    everything = town.results()
    told = {name: json.loads((path / "manifest.json").read_text()) for name, path in everything.items()}
    assert told["second"]["compared_with"] == told["late"]["compared_with"] == result.name
    assert json.loads((town.out / PLACE / "latest.json").read_text())["folder"] == everything["second"].name
    drift = json.loads((everything["second"] / "drift.json").read_text())
    assert (drift["verdict"], drift["buildings"] > 20, bool(drift["features"])) == ("none", True, True)
    table = pd.read_csv(everything["second"] / "changes.csv")
    assert len(table) == told["second"]["changes"]["changed"]
    assert (table["seen_from_before"] == "east + west").all()
    assert (table["seen_from_after"] == "east + west").all()
    before = {row.building_id: row for row in found.itertuples()}
    after = {row.building_id: row for row in read_predictions(everything["second"] / "predictions.gpkg").itertuples()}
    assert set(table["building_id"]) >= {name for name in after if after[name].status != before[name].status}
    for row in table.itertuples():
        assert row.status_before == before[row.building_id].status
        assert row.severity_low_after == pytest.approx(after[row.building_id].severity_low, nan_ok=True)
    assert not (town.folder / ".plumbline" / "score").exists()  # the work of all of them is done


@pytest.mark.chaos
def test_a_run_killed_within_a_delivery_goes_on_where_it_was(town: Town, tmp_path_factory: pytest.TempPathFactory):
    shutil.copy(empty_registry(tmp_path_factory), town.folder)  # which `score` would make otherwise
    town.settings(tile_m=100)
    town.deliver("2026-11")
    command = [sys.executable, "-m", "plumbline", "score", "--model", str(town.package), "--workers", "1"]
    environment = os.environ | {"PYTHONPATH": str(Path(plumbline.__file__).parents[1])}
    with (town.folder / "killed.log").open("w") as log:
        process = subprocess.Popen(command, cwd=town.folder, env=environment, stderr=log, process_group=0)
        log_file = town.folder / "killed.log"
        until(lambda: len(finished(town)) >= 2, "two portions", needs=process, found=log_file, pause_s=0.002)
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not town.results()
    done = finished(town)
    before = {folder: folder.stat().st_ino for folder in done}

    seen: dict[Path, int] = {}
    original = publishing.publish

    def watched(reading, tiles, *rest):
        seen.update({tile.folder: tile.folder.stat().st_ino for tile in tiles})
        return original(reading, tiles, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plumbline.serve.score.run.publish", watched)
        ended = town.score()
    assert ended.code == 0, ended.err
    assert 2 <= len(done) < len(seen), "the kill came too late to show anything"
    assert before.items() <= seen.items()  # the very folders of the run that was killed
    assert f"score: going on, {len(done)} of {len(seen)} portions are there from before" in ended.err
    (result,) = town.results().values()
    assert not list(town.out.rglob(".*"))

    # The same answers as those of a run that nobody disturbed.
    table = pd.DataFrame(read_predictions(result / "predictions.gpkg"))
    other = town.folder / "undisturbed"
    params = town.settings(tile_m=100, out=str(other))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(town.folder)
        score(params, lambda: (town.package, None), 1)
    (again,) = other.glob(f"{PLACE}/*/predictions.gpkg")
    pd.testing.assert_frame_equal(pd.DataFrame(read_predictions(again)), table)


def test_a_champion_is_asked_for_by_a_delivery_alone(town):
    """A system that was just set up looks every quarter of an hour, and has no champion before its first night."""
    assert run_cli("score", "--workers", "1", cwd=town.folder).code == 0
    town.deliver("one")
    ended = run_cli("score", "--workers", "1", cwd=town.folder)
    assert ended.code == 2
    assert "champion: no registry" in ended.err
    assert not list((town.out / "_aside").rglob("*.json"))


def finished(town: Town) -> list[Path]:
    """Folders of the tiles that are judged."""
    return sorted(
        path.parent
        for path in (town.folder / ".plumbline" / "score").glob("*/*/x*_y*/tile.json")
        if not path.parent.name.startswith(".")
    )


def test_what_cannot_be_read_is_set_aside_and_stops_nobody(town: Town):
    broken = town.deliver("a_broken")
    product = sorted(broken.glob("EGMS*"))[0]
    product.write_text(product.read_text().replace("easting", "easing", 1))
    town.deliver("b_no_footprints", footprints=False)
    town.deliver("c_whole")
    ended = town.score()
    assert ended.code == 2
    assert list(town.results()) == ["c_whole"]
    notes = {path.name.rsplit("-", 1)[0]: json.loads(path.read_text()) for path in (town.out / "_aside").glob("*/*")}
    assert set(notes) == {"a_broken", "b_no_footprints"}
    assert product.name in notes["a_broken"]["reason"]
    assert "footprints" in notes["b_no_footprints"]["reason"]
    assert notes["a_broken"]["reason"] in ended.err

    # Not tried again, until its files or the settings are others.
    ended = town.score()
    assert (ended.code, ended.err) == (0, "")
    product.write_text(product.read_text().replace("easing", "easting", 1))
    town.settings(footprints={PLACE: str(town.footprints)})
    ended = town.score()
    assert ended.code == 0, ended.err
    assert set(town.results()) == {"a_broken", "b_no_footprints", "c_whole"}
    told = json.loads((town.results()["b_no_footprints"] / "manifest.json").read_text())
    assert told["footprints"] == {"path": str(town.footprints), "sha256": sha256_file(town.footprints)}
    assert [path.name.rsplit("-", 1)[0] for path in (town.out / "_aside").glob("*/*")] == ["a_broken"]  # the old files


def test_alarms_are_written_beside_the_results_and_wait_where_one_is_lost(town: Town):
    town.settings(alarms=[{"name": "seen", "when": "n_points >= 0", "in_a_row": 2}])
    town.deliver("first", last=town.days[-2])
    town.deliver("second")
    assert town.score().code == 0
    path = town.out / PLACE / "alarms.csv"
    table = pd.read_csv(path)
    result = town.results()["second"]
    assert set(table["building_id"]) == set(read_predictions(result / "predictions.gpkg")["building_id"])
    assert set(table["state"]) == {"new"}
    assert set(table["delivery"]) == {result.name}

    # Without an old result the alarms wait, and new deliveries are judged.
    (town.results()["first"] / "predictions.gpkg").unlink()
    town.deliver("third", every=2)
    ended = town.score()
    assert ended.code == 1
    assert "alarms were not derived: " in ended.err
    assert "predictions.gpkg" in ended.err
    assert "third" in town.results()
    assert set(pd.read_csv(path)["delivery"]) == {result.name}


def test_a_disk_that_is_full_under_the_alarms_is_named(town: Town, monkeypatch: pytest.MonkeyPatch):
    town.deliver("2026-11")
    monkeypatch.chdir(town.folder)
    settings = town.settings()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plumbline.serve.score.run.update_alarms", full)
        place = re.escape(str(settings.score.out / PLACE))
        message = f"^{PLACE}: alarms were not derived: {place}: could not be written .No space left on device"
        with pytest.raises(NotWritable, match=message) as raised:
            score(settings, lambda: (town.package, None), 1)
    assert raised.value.exit_code == 2
    assert len(town.results()) == 1


def test_a_disk_that_is_full_blames_no_delivery(town: Town, monkeypatch: pytest.MonkeyPatch):
    town.deliver("2026-11")
    monkeypatch.chdir(town.folder)

    def full(*_: object) -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise InputError("f.csv: could not be read.") from error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plumbline.serve.score.run.read", full)
        with pytest.raises(InputError):
            score(town.settings(), lambda: (town.package, None), 1)
    assert not (town.out / "_aside").exists()

    # Nor does a place that takes no files.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plumbline.serve.score.run.read", lambda *_: check_writable(Path("/proc/x")))
        with pytest.raises(NotWritable):
            score(town.settings(), lambda: (town.package, None), 1)
    assert not (town.out / "_aside").exists()
    assert score(town.settings(), lambda: (town.package, None), 1).published

    # Nor do settings that are wrong.
    town.deliver("another")
    with refuses("file.missing", "score.footprints.elsewhere", "nowhere.gpkg"):
        score(town.settings(footprints={"elsewhere": "nowhere.gpkg"}), lambda: (town.package, None), 1)
    with pytest.raises(InputError, match=r"score\.causes\.showtown: nowhere.gpkg"):
        score(town.settings(causes={PLACE: "nowhere.gpkg"}), lambda: (town.package, None), 1)
    assert not (town.out / "_aside").exists()


def test_the_causes_of_a_place_are_looked_at(town: Town, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()  # with a map
    town.settings(causes={PLACE: str(town.footprints)}, damage_rate_by="city")
    town.deliver("first")
    ended = town.score()
    assert ended.code == 0, ended.err
    assert re.search(r"cause 1: the \d judged buildings within .* m are too few to tell", ended.err)
    (result,) = town.results().values()
    manifest = json.loads((result / "manifest.json").read_text())
    assert manifest["causes"] == {"path": str(town.footprints), "sha256": sha256_file(town.footprints)}
    assert manifest["damage_rate_by"] == "city"
    names = geopandas.read_file(result / "predictions.gpkg", layer="causes")["name"].tolist()
    drawn = document_in(result / "map.html")["causes"]["features"]
    assert [one["properties"]["name"] for one in drawn] == names
    assert "cause 1" in names


def test_a_bug_that_one_delivery_meets_holds_up_no_other(town: Town, monkeypatch: pytest.MonkeyPatch):
    from plumbline.serve.score import run

    town.deliver("a_unlucky")
    town.deliver("c_unlucky")
    town.deliver("d_undone")
    town.deliver("e_lucky")
    real_plan, real_publish = run.plan_reading, run.publish

    def plan(delivery, footprints, params):
        if delivery.name == "a_unlucky":
            raise KeyError("nobody thought of this")
        return real_plan(delivery, footprints, params)

    def publish(reading, tiles, *rest):
        if reading.delivery.name == "c_unlucky":
            raise ZeroDivisionError("nor of this")
        if reading.delivery.name == "d_undone":
            raise InputError("b/manifest.json: Move the folder away.")
        return real_publish(reading, tiles, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "plan_reading", plan)
        patch.setattr(run, "publish", publish)
        ended = town.score()
    assert ended.code == 1
    last = ended.err.splitlines()[-1]
    assert "(KeyError: 'nobody thought of this'); " in last
    assert "(ZeroDivisionError: nor of this); " in last
    assert last.endswith("(judged, and not published: b/manifest.json: Move the folder away.)")
    assert list(town.results()) == ["e_lucky"]
    assert not (town.out / "_aside").exists()
    assert town.score().code == 0
    assert len(town.results()) == 4


def test_a_delivery_that_changes_while_it_is_judged_waits(town: Town, monkeypatch: pytest.MonkeyPatch):
    folder = town.deliver("2026-11")
    monkeypatch.chdir(town.folder)
    from plumbline.serve.score import run

    real = run.judge_tiles

    def judge_and_touch(tiles, workers):
        real(tiles, workers)
        (folder / "more.txt").write_text(str(np.random.default_rng(0).random()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "judge_tiles", judge_and_touch)
        assert score(town.settings(), lambda: (town.package, None), 1).published == []
    assert not town.results()
    whole = sha256_folder(folder)
    assert len(score(town.settings(), lambda: (town.package, None), 1).published) == 1
    assert sha256_folder(folder) == whole


def test_a_place_with_a_damaged_result_waits_and_holds_up_no_other(town: Town):
    town.deliver("a")
    assert town.score().code == 0
    (result,) = town.results().values()
    shutil.copytree(town.source / PLACE, town.source / "harbour")
    town.deliver("b", every=2)
    (result / "manifest.json").write_text("{")
    ended = town.score()
    assert ended.code == 1
    assert f"{PLACE} (" in ended.err
    assert "manifest.json" in ended.err
    assert "Move the folder away" in ended.err
    assert len(list(town.out.glob("harbour/a-*/manifest.json"))) == 1
    assert sorted(path.parent.name[0] for path in town.out.glob(f"{PLACE}/*/manifest.json")) == ["a"]
    shutil.rmtree(result)
    assert town.score().code == 0
    assert sorted(town.results()) == ["a", "b"]
