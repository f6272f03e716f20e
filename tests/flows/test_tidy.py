"""The flow `tidy`: what ended long ago goes, what is at work stays."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from flows.orchestration import run_records
from flows.orchestration.services import FOLDER
from flows.tidy import tidy
from flows.versioning import checkout
from flows.versioning.checkout import HOLDER, TIDYING, CheckoutBusyError, alone
from tests.flows.conftest import ROOT

LONG_AGO = 10.0


@pytest.fixture(autouse=True)
def _without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.tidy.get_run_logger", lambda: logging.getLogger("test"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder with an empty registry and no DVC."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params | {"tidy": {"days": LONG_AGO, "log_mib": 0.001}}))
    return tmp_path


def aged(path: Path, days: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x" * 100)
    when = time.time() - days * 86_400
    for one in (path, path.parent):
        os.utime(one, (when, when))
    return path


def test_a_checkout_at_work_is_passed_over(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.versioning.process.run", lambda *_, **__: 0)  # the registry has nothing to tidy
    clones = [place / ".plumbline/system/clones" / name for name in ("cpu", "gpu")]
    for clone in clones:
        (clone / ".git").mkdir(parents=True)
        aged(clone / ".plumbline/checkpoints/train-1/last.ckpt", LONG_AGO + 1)
    with alone(clones[0]):
        told = tidy.fn()
    assert told.is_completed(), told.message
    assert told.message.endswith("left alone, a run is at work: cpu")
    left = [(clone / ".plumbline/checkpoints/train-1/last.ckpt").exists() for clone in clones]
    assert left == [True, False]


@pytest.mark.slow
@pytest.mark.usefixtures("harness")
def test_one_part_that_fails_stops_no_other(place: Path) -> None:
    (place / "mlflow.db").write_text("not a database " * 100)
    old = aged(place / ".plumbline/search/abc/rows.json", LONG_AGO + 1)
    told = tidy(return_state=True)
    assert told.is_failed()
    assert "the model registry does not answer" in told.message
    assert not old.exists()


def test_the_other_family_is_tidied_with_the_settings_of_the_project(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "restoration").mkdir()
    shutil.copy(ROOT / "restoration/params.yaml", place / "restoration/params.yaml")
    left = aged(place / "restoration/.plumbline/checkpoints/train-1/last.ckpt", 11)
    asked: list[list[str]] = []

    def run(command: list[str], say: Callable[[str], None], **_: object) -> int:
        asked.append(command[command.index("tidy") + 1 :])
        say("INFO removed: nothing")
        return 0

    monkeypatch.setattr("flows.versioning.process.run", run)
    state = tidy.fn()
    assert state.is_completed(), state.message
    assert asked == [[], ["--name", "plumbline-restoration"]]
    assert not left.exists()


def test_only_what_nothing_changed_for_long_goes(place: Path) -> None:
    old = [aged(place / f".plumbline/{name}/a/file", 11) for name in ("checkpoints", "runs", "tensorboard/train")]
    new = [aged(place / f".plumbline/{name}/b/file", 9) for name in ("checkpoints", "runs", "tensorboard/train")]
    old.append(aged(place / ".plumbline/profile/fit-train.txt", 11))
    new.append(aged(place / ".plumbline/profile/fit-compress.txt", 9))
    aged(place / ".plumbline/runs/.a.removed/file", 11)  # of a removal that was cut
    other = [aged(place / ".plumbline/kept/athens/params.yaml", 99), aged(place / ".plumbline/models/v1/x", 99)]
    assert run_records.clear_folders(place, LONG_AGO, dry_run=True, clone=False) == 500
    assert all(path.exists() for path in old)
    assert run_records.clear_folders(place, LONG_AGO, dry_run=False, clone=False) == 500
    assert not any(path.exists() for path in old)
    assert not list(place.glob(".plumbline/**/.*"))
    assert all(path.exists() for path in [*new, *other])
    assert run_records.clear_folders(place, LONG_AGO, dry_run=False, clone=True) == 100
    assert [path.exists() for path in other] == [True, False]


def test_a_log_is_cut_while_it_is_written(place: Path) -> None:
    FOLDER.mkdir(parents=True)
    log = FOLDER / "server.log"
    with log.open("ab", buffering=0) as stream:
        for number in range(1000):
            stream.write(f"line {number}\n".encode())
        size = log.stat().st_size
        assert run_records.cut_logs(size, dry_run=False) == 0
        assert run_records.cut_logs(1000, dry_run=True) == size - 500
        assert log.stat().st_size == size
        run_records.cut_logs(1000, dry_run=False)
        stream.write(b"line 1000\n")
    lines = log.read_text().splitlines()
    first = int(lines[0].removeprefix("line "))
    assert lines == [f"line {number}" for number in range(first, 1001)]
    assert 300 < log.stat().st_size < 520


@pytest.fixture
def tidying(place: Path) -> Iterator[threading.Event]:
    """Another holder of the checkout, which says that it tidies, until the event."""
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with alone(purpose=TIDYING):
            held.set()
            let_go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    yield let_go
    let_go.set()
    thread.join()


def test_a_run_waits_for_tidying_and_for_nothing_else(
    tidying: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout, "PATIENCE_S", 0.1)
    threading.Timer(0.5, tidying.set).start()
    with alone():
        assert tidying.is_set()
        assert HOLDER.read_text() == str(os.getpid())
        with pytest.raises(CheckoutBusyError), alone(purpose=TIDYING):
            pass
