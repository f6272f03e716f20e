"""Tidying a registry: what was asked to stay stays, what goes is gone with its files, and nothing comes back."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.entities import ViewType
from typer.testing import CliRunner

from plumbline.cli.release import app
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.export.package import verify_package
from plumbline.params import Tidy
from plumbline.release.promotion import challenge, promote, rollback
from plumbline.release.registry import Registry
from plumbline.release.resolve import resolve_model
from plumbline.release.tidy import plan_tidy, tidy
from plumbline.release.versions import HISTORY, TRAINING, Records, Registered
from tests.release.conftest import MakePackage
from tests.words import read_words

FEW = Tidy(former_champions=2, packages=1, runs=1, days=1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def agree(_candidate: Path, _champion: Path) -> None:
    """Nothing against the candidate."""


def model() -> str:
    """The words in the champion's model, whose files are asked to be whole."""
    folder = resolve_model("champion")
    verify_package(folder)
    return read_words(folder)


def runs(view: int = ViewType.ALL) -> list:
    client = Registry().server.client
    return list(client.search_runs([client.get_experiment_by_name("release").experiment_id], run_view_type=view))


class Written:
    """What a registry would hold after a sequence of promotions, roll-backs and registrations, by its own rules."""

    def __init__(self) -> None:
        self.champion: int | None = None
        self.history: list[int] = []
        self.rolled_back: set[int] = set()
        self.count = 0

    def do(self, what: str, number: int) -> None:
        if what == "register":
            self.count += 1
        elif what == "rollback":
            former = self.former()
            if former is not None and self.champion is not None:
                self.rolled_back.add(self.champion)
                self.history = self.history[: len(self.history) - 1 - self.history[::-1].index(former)]
                self.champion = former
        elif self.count:
            number = number % self.count + 1
            if self.champion not in (None, number):
                self.history.append(self.champion)
            self.champion = number
            self.rolled_back.discard(number)
            if what == "cut" and self.history:  # between the two writes of a promotion
                self.champion = self.history[-1]

    def former(self) -> int | None:
        return next((one for one in reversed(self.history) if one != self.champion), None)

    def versions(self) -> list[Registered]:
        return [
            Registered(
                number,
                f"v{number}",
                NOW,
                number == self.champion,
                "",
                number in self.rolled_back,
                number in self.history and number != self.champion,
            )
            for number in range(self.count, 0, -1)
        ]


steps = st.tuples(st.sampled_from(["register", "register", "crown", "rollback", "cut"]), st.integers(0, 30))


@given(st.lists(steps, max_size=40), st.integers(1, 5), st.integers(0, 4), st.sets(st.integers(1, 12), max_size=2))
def test_champion_and_promised_roll_backs_never_go(sequence, former, packages, named) -> None:
    written = Written()
    for what, number in sequence:
        written.do(what, number)
    versions = written.versions()
    aliased = {number for number in named if number <= written.count} | ({written.champion} - {None})
    decided = plan_tidy(versions, written.history, aliased, Tidy(former_champions=former, packages=packages))
    left = {item.number for item in versions} - {item.number for item in decided.going}
    assert aliased <= left
    assert len(left) <= 1 + former + packages + len(named)
    assert written.count in left or packages == 0 or not versions
    assert {*decided.history} <= left | {written.champion}

    # As many roll-backs as before, up to what is promised, and to the same versions.
    before, after = list(written.history), Written()
    after.champion, after.history = written.champion, decided.history
    for _ in range(former):
        assert after.former() == written.former()
        for one in (written, after):
            one.do("rollback", 0)
        assert written.champion == after.champion
        assert written.champion is None or written.champion in left
    assert before[len(before) - len(decided.history) :] == decided.history


def test_what_goes_is_gone_with_its_files_and_roll_backs_work(registry: Registry, make_package: MakePackage) -> None:
    for words in ("one", "two", "three", "four", "five"):
        promote(make_package(words), agree)
    before = {path.name for path in Path("mlartifacts").iterdir()}
    dry = tidy(FEW.model_copy(update={"packages": 0}), registry, dry_run=True)
    assert len(registry.versions()) == 5
    assert {path.name for path in Path("mlartifacts").iterdir()} == before
    done = tidy(FEW.model_copy(update={"packages": 0}), registry)
    assert [item.number for item in done.packages] == [item.number for item in dry.packages] == [1, 2]
    assert len(list(Path("mlartifacts").iterdir())) == len(runs()) == len(registry.versions()) == 3

    assert model() == "five"
    assert rollback().champion.number == 4
    assert rollback().champion.number == 3
    assert model() == "three"
    with pytest.raises(InputError, match="no champion was released before"):
        rollback()
    assert tidy(FEW, registry).packages[0].number == 4  # rolled back, and one older than the newest


def test_whatever_has_an_alias_stays(registry: Registry, make_package: MakePackage) -> None:
    challenger = challenge(make_package("challenger"), registry)
    for words in ("one", "two", "three", "four"):
        promote(make_package(words), agree)
    client = registry.server.client
    client.set_registered_model_alias(registry.name, "audited", "2")
    tidy(Tidy(former_champions=1, packages=0), registry)
    assert {item.number for item in registry.versions()} == {challenger.number, 2, 4, 5}
    assert registry.challenger() == challenger


def test_a_model_of_another_name_keeps_its_files(registry: Registry, make_package: MakePackage) -> None:
    promote(make_package("one"), agree)
    other = Registry("another")
    kept = other.register(make_package("two"), verify_package(Path("package_two")))
    tidy(Tidy(former_champions=1, packages=0), registry)
    verify_package(other.folder(kept))


def test_a_registration_that_was_cut_leaves_nothing_for_long(registry: Registry, make_package: MakePackage) -> None:
    promote(make_package("one"), agree)
    client = registry.server.client
    experiment = client.get_experiment_by_name("release").experiment_id
    lost = client.create_run(experiment, tags={"package_version": "0" * 12})
    client.log_artifacts(lost.info.run_id, str(make_package("lost")), "package")
    tidy(FEW, registry)
    assert len(runs()) == len(list(Path("mlartifacts").iterdir())) == 1
    assert model() == "one"


def test_old_records_of_training_go_and_those_at_work_stay(registry: Registry, tmp_path: Path) -> None:
    client = registry.server.client
    experiment = client.create_experiment(TRAINING, artifact_location=(tmp_path / "curves").as_uri())
    day = 86_400_000
    now = int(time.time() * 1000)

    def training(days: float, end: bool = True) -> str:
        run = client.create_run(experiment, start_time=int(now - days * day)).info.run_id
        client.log_dict(run, {"epochs": 3}, "record.json")
        if end:
            client.set_terminated(run, end_time=int(now - days * day) + 1000)
        return run

    old, deleted = training(5), training(6)
    client.delete_run(deleted)  # by somebody, who may want it back
    kept = {training(0.5), training(4, end=False), training(3)} - {old}
    lost = training(20, end=False)
    newest = training(0.1)
    first = sorted(run.info.run_id for run in Records(client).old_trainings(2, newest=3))
    assert first == sorted([old, lost])
    removed = tidy(Tidy(days=2, runs=3), registry)
    assert removed.trainings == 2
    assert {run.info.run_id for run in client.search_runs([experiment])} == {*kept, newest}
    assert client.get_run(deleted).info.lifecycle_stage == "deleted"
    assert {path.name for path in (tmp_path / "curves").iterdir()} == {*kept, newest, deleted}


def test_the_records_of_training_are_those_that_train_writes(tmp_path: Path, registry: Registry) -> None:
    from plumbline.train.monitor.loggers import log_record, loggers

    record: dict[str, Any] = {"run_key": "k", "data_sha256": "d", "git": None, "params": {"epochs": 1}, "metrics": {}}
    found = loggers("train", record, tmp_path / ".plumbline", {})
    assert "MLFLOW_TRACKING_URI" not in os.environ  # what this process does next in another folder has its own record
    log_record(found, record)
    for logger in found:
        logger.finalize("success")
    client = registry.server.client
    (run,) = client.search_runs([client.get_experiment_by_name(TRAINING).experiment_id])
    assert [run.info.run_id for run in Records(client).old_trainings(1e-9, newest=0)] == [run.info.run_id]
    Records(client).remove(run)
    assert not list((tmp_path / ".plumbline/mlruns").iterdir())


def test_an_alias_of_nothing_is_an_error(registry: Registry, make_package: MakePackage) -> None:
    """The list of versions is not whole: what it does not name would be taken for unwanted."""
    for words in ("one", "two", "three"):
        promote(make_package(words), agree)
    versions = registry.versions()
    registry.versions = lambda: versions[1:]  # type: ignore[method-assign]
    with pytest.raises(InputError, match="names version 3, which is not there"):
        tidy(Tidy(former_champions=1, packages=0), registry)
    assert len(runs()) == 3


def test_the_list_of_champions_holds_what_is_there(registry: Registry, make_package: MakePackage) -> None:
    for words in ("one", "two", "three", "four"):
        promote(make_package(words), agree)
    tidy(Tidy(former_champions=1, packages=0), registry)
    client = registry.server.client
    assert json.loads(client.get_registered_model(registry.name).tags[HISTORY]) == [3]


def test_the_command_says_what_would_go(
    registry: Registry, make_package: MakePackage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "propagate", True)
    for words in ("one", "two", "three"):
        promote(make_package(words), agree)
    root = Path(__file__).parents[2]
    content = (root / "params.yaml").read_text()
    content = content.replace("former_champions: 5", "former_champions: 1").replace("packages: 5", "packages: 0")
    Path("params.yaml").write_text(content)

    def said(*options: str) -> str:
        caplog.clear()
        done = CliRunner().invoke(app, ["tidy", *options])
        assert done.exit_code == 0, done.output
        return caplog.text

    caplog.set_level("INFO", log.name)
    assert "would be removed: 1 packages, 0 records of training" in said("--dry-run")
    assert len(registry.versions()) == 3
    assert "number 1" in said()
    assert [item.number for item in registry.versions()] == [3, 2]
