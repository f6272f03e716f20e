"""Single stages under the real DVC: what came of them, in words."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from flows.versioning import process
from flows.versioning.stage_runner import StageFailedError, _failure, promote, reproduce, stale
from tests.flows.conftest import STAGES, Project, stage_process
from tests.waiting import until_gone

INSIDE = pytest.mark.usefixtures("inside")


def test_a_stage_runs_once_and_is_restored_from_the_cache(project: Project, request: pytest.FixtureRequest) -> None:
    heard: list[str] = []
    assert reproduce("simulate", heard.append) == "ran"
    assert {"simulate says hello", "simulate says why"} <= set(heard)
    assert not any("git add" in line or "lock file" in line for line in heard)
    request.getfixturevalue("inside")  # the first ran in a process of its own, as in a flow
    assert reproduce("simulate", heard.append) == "unchanged"
    project.behave(simulate={"other": 1})
    assert reproduce("simulate", heard.append) == "ran"
    project.behave()
    assert reproduce("simulate", heard.append) == "restored"


@INSIDE
def test_what_is_stale_is_known_beforehand(project: Project) -> None:
    assert stale() == set(STAGES)
    reproduce("simulate", str)
    assert stale() == set(STAGES) - {"simulate"}
    Path("data/simulate/file.txt").unlink()
    assert "simulate" in stale()
    Path("dvc.yaml").write_text("stages: [")
    assert stale() == set(STAGES)


@INSIDE
@pytest.mark.parametrize(("exits", "code"), [(1, 1), (2, 2), (3, 3), (7, 1)])
def test_the_exit_status_of_a_stage_comes_through(project: Project, exits: int, code: int) -> None:
    project.behave(simulate={"exit": exits})
    with pytest.raises(StageFailedError, match="simulate says why") as caught:
        reproduce("simulate", str)
    assert caught.value.exit_code == code


@INSIDE
def test_a_refusal_names_the_rules_that_failed(project: Project) -> None:
    project.behave(gate={"fail_gate": True}, approve={"exit": 3})
    Path("data/validate").mkdir(parents=True)
    Path("data/validate/file.txt").touch()
    reproduce("gate", str)
    with pytest.raises(StageFailedError, match=r"severity_mae of int8 on all: 0\.4, at most 0\.3") as caught:
        reproduce("approve", str)
    assert caught.value.exit_code == 3


@INSIDE
def test_dvc_without_its_file_is_no_success(project: Project) -> None:
    Path("dvc.yaml").unlink()
    with pytest.raises(StageFailedError, match=r"dvc\.yaml") as caught:
        reproduce("simulate", str)
    assert caught.value.exit_code == 1


@INSIDE
def test_a_release_that_is_refused(project: Project) -> None:
    for code in (2, 3):
        project.behave(release={"exit": code})
        with pytest.raises(StageFailedError, match="release") as caught:
            promote(str)
        assert caught.value.exit_code == code


@pytest.mark.parametrize("before", ["", "epoch 3 of", "epoch 3 of 9\n"])
def test_how_a_stage_ended_is_read_behind_a_line_that_it_did_not_end(before: str) -> None:
    words = "ERROR: failed to reproduce 'train': failed to run: exec plumbline train, exited with "
    lines = f"begun\n{before}{words}".split("\n")
    said = before.strip() or "begun"
    assert "killed by signal 9" in str(_failure("train", 255, [*lines[:-1], lines[-1] + "-9"]))
    failed = _failure("train", 255, [*lines[:-1], lines[-1] + "2"])
    assert (str(failed), failed.exit_code) == (f"train: {said}", 2)


def test_a_stage_that_takes_too_long_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, limit_s: float, **__: object) -> int:
        raise process.TookTooLongError(f"not finished after {limit_s} s, and ended")

    monkeypatch.setattr(process, "run", run)
    with pytest.raises(StageFailedError, match="simulate: not finished after 5 s, and ended") as caught:
        reproduce("simulate", str, limit_s=5)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("victim", ["stage", pytest.param("dvc", marks=pytest.mark.slow)])
def test_a_killed_stage_fails_and_can_run_again(project: Project, victim: str, request: pytest.FixtureRequest) -> None:
    project.behave(simulate={"sleep": 3600})
    failure: list[StageFailedError] = []

    def attempt() -> None:
        try:
            reproduce("simulate", str)
        except StageFailedError as error:
            failure.append(error)

    worker = threading.Thread(target=attempt)
    worker.start()
    stage = stage_process("simulate")
    dvc = int(Path(f"/proc/{stage}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(stage if victim == "stage" else dvc, signal.SIGKILL)
    worker.join()
    assert "killed by signal 9" in str(failure[0])
    until_gone(stage)
    request.getfixturevalue("inside")
    project.behave()
    assert reproduce("simulate", str) == "ran"
