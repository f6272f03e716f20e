"""Tidying a registry: what was asked to stay stays, what goes is gone with its files, and nothing comes back."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
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
from plumbline.core.errors import GateRefused
from plumbline.export.package import verify_package
from plumbline.params import Tidy
from plumbline.release.promotion import challenge, promote, rollback
from plumbline.release.registry import Registry
from plumbline.release.resolve import resolve_model
from plumbline.release.server import Server
from plumbline.release.tidy import plan_tidy, tidy
from plumbline.release.versions import TRAINING, Records, Registered, former_champions
from tests.refusals import refuses
from tests.release.conftest import MakePackage, after
from tests.release.test_promotion import agree
from tests.words import read_words

FEW = Tidy(former_champions=2, packages=1, runs=1, days=1)


def model() -> str:
    """The words in the champion's model, whose files are asked to be whole."""
    folder = resolve_model("champion")
    verify_package(folder)
    return read_words(folder)


def runs(view: int = ViewType.ALL) -> list:
    client = Registry().server.client
    return list(client.search_runs([client.get_experiment_by_name("release").experiment_id], run_view_type=view))


@after(5)
def test_what_goes_is_gone_with_its_files_and_roll_backs_work(registry: Registry) -> None:
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
    with refuses("champion.none_before"):
        rollback()
    assert tidy(FEW, registry).packages[0].number == 4  # rolled back, and one older than the newest


@after(4)
def test_a_former_champion_that_stays_is_refused_after_tidying(registry: Registry) -> None:
    """However many roll-backs are kept: it is in the registry as one of the newest, and no run brings it back."""
    tidy(Tidy(former_champions=1, packages=5), registry)
    assert [item.state for item in registry.versions()] == ["champion", "former", "former", "former"]
    with refuses("package.former_champion", error=GateRefused):
        promote(Path("package_one"), agree)
    assert promote(Path("package_one"), agree, allow_former=True).changed


@st.composite
def registries(draw: st.DrawFn) -> tuple[list[Registered], set[int]]:
    """Versions in any state, one or none the champion, and the numbers that have an alias."""
    numbers = draw(st.lists(st.integers(1, 40), min_size=1, max_size=20, unique=True))
    places = draw(st.permutations(range(1, len(numbers) + 1)))
    champion = draw(st.sampled_from([None, *numbers]))
    versions = [
        Registered(
            *(number, f"{number:012x}", datetime.now(UTC), number == champion, "file:/nowhere"),
            rolled_back=draw(st.booleans()),
            replaced=place * draw(st.booleans()),
        )
        for number, place in zip(numbers, places, strict=True)
    ]
    aliased = draw(st.sets(st.sampled_from(numbers))) | ({champion} if champion is not None else set())
    return versions, aliased


@given(registries(), st.integers(1, 5), st.integers(0, 5))
def test_a_plan_spares_champion_aliases_roll_back_targets_and_the_newest(
    content: tuple[list[Registered], set[int]], former: int, newest: int
) -> None:
    versions, aliased = content
    going = plan_tidy(versions, aliased, Tidy(former_champions=former, packages=newest))
    gone = {item.number for item in going}
    staying = {item.number for item in versions} - gone
    targets = former_champions(versions)[:former]
    assert not any(item.champion for item in going)
    assert not gone & (aliased | {item.number for item in targets})
    others = staying - aliased - {item.number for item in targets}
    assert len(others) == newest or not gone
    assert len(others) <= newest
    assert max(gone, default=0) < min(others, default=41)


@after(3)
def test_a_version_that_became_the_champion_on_another_machine_keeps_its_files(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a server nothing locks the others out."""
    monkeypatch.setattr(Server, "locks", property(lambda _server: False))
    monkeypatch.setattr("plumbline.release.tidy.DAY_MS", 0)
    withdraw = Registry.withdraw

    def withdraw_and_promote(asked: Registry, number: int) -> None:
        withdraw(asked, number)
        Registry().set_champion(2)

    monkeypatch.setattr(Registry, "withdraw", withdraw_and_promote)
    monkeypatch.setattr("plumbline.release.tidy.plan_tidy", lambda versions, *_: sorted_by_number(versions)[:2])
    tidy(FEW, registry)
    assert model() == "two"


def sorted_by_number(versions: Sequence[Registered]) -> list[Registered]:
    return sorted(versions, key=lambda item: item.number)


@after(4)
def test_what_has_an_alias_or_another_name_stays_and_a_cut_registration_goes(
    registry: Registry, make_package: MakePackage
) -> None:
    challenger = challenge(make_package("challenger"), registry)
    client = registry.server.client
    client.set_registered_model_alias(registry.name, "audited", "1")
    other = Registry("another")
    entry = other.register(make_package("other"), verify_package(Path("package_other")))
    cut = client.create_run(client.get_experiment_by_name("release").experiment_id, tags={"package_version": "0" * 12})
    client.log_artifacts(cut.info.run_id, str(make_package("cut")), "package")
    tidy(FEW.model_copy(update={"former_champions": 1, "packages": 0}), registry)
    assert {item.number for item in registry.versions()} == {challenger.number, 1, 3, 4}
    assert registry.challenger() == challenger
    verify_package(other.folder(entry))
    assert len(runs()) == len(list(Path("mlartifacts").iterdir())) == 5
    assert model() == "four"


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


@after(3)
def test_the_command_says_what_would_go(
    registry: Registry, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "propagate", True)
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
