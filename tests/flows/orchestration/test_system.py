"""`make up`, all that runs on it, and `make down`: one real system for the whole file, its tests in this order."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from flows.versioning import clones
from flows.versioning.stage_runner import reproduce
from tests.flows.conftest import make_project, stage_process
from tests.flows.system import SYSTEM, System, system_of
from tests.waiting import until, until_gone

pytestmark = [pytest.mark.chaos, pytest.mark.slow]


@pytest.fixture(scope="module")
def system(prefect_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with system_of(make_project(tmp_path_factory.mktemp("system")), prefect_database) as running:
        yield running


def test_up_again_says_that_it_is_up_and_starts_nothing(system: System) -> None:
    before = set(system.processes())
    code, said = system.project.run(*SYSTEM, "up")
    assert code == 0
    assert said.startswith("It is up.\nOpen     http://127.0.0.1:")
    assert "make down" in said
    # A service may have a helper at work for a moment, which was not there before and is not there soon.
    until(lambda: not set(system.processes()) - before, "the end of what is new")
    assert system.project.run(*SYSTEM, "status")[0] == 0
    pools = {pool["name"]: pool["concurrency_limit"] for pool in system.ask("/work_pools/filter")}
    assert pools == {"cpu": 4, "gpu": 1, "project": 2}


def test_the_nightly_run_is_scheduled_and_what_trains_is_made_by_the_gpu_worker(system: System) -> None:
    nightly = system.call("GET", "/deployments/name/pipeline/nightly")
    assert nightly["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
    ours = {"deployments": {"id": {"any_": [nightly["id"]]}}}
    runs = until(lambda: system.ask("/flow_runs/filter", **ours, sort="EXPECTED_START_TIME_ASC"), "a scheduled run")
    assert {run["state"]["type"] for run in runs} == {"SCHEDULED"}
    assert all(run["expected_start_time"][11:16] == "02:00" for run in runs)

    # Not to wait for the night: the first of the scheduled runs becomes due now.
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    due = {"type": "SCHEDULED", "state_details": {"scheduled_time": now}}
    system.ask(f"/flow_runs/{runs[0]['id']}/set_state", state=due, force=True)
    run = system.ended(runs[0]["id"])
    assert run["state"]["type"] == "COMPLETED", system.said(run["id"])
    assert run["state"]["message"].startswith("recomputed: simulate, ingest, prepare, train, compress")
    here = system.said(run["id"])
    assert "export says hello" in here
    for stage in ("train", "compress"):
        assert f"{stage} says hello" not in here
        (made,) = system.ask("/flow_runs/filter", flow_runs={"name": {"any_": [stage]}})
        assert (made["state"]["type"], made["state"]["message"]) == ("COMPLETED", f"{stage}: ran")
        assert made["work_pool_name"] == "gpu"
        heard = system.said(made["id"])
        assert [line for line in heard if line.endswith("says hello")] == [f"{stage} says hello"]
        # What another pool made comes from the run-cache; what this worker made it still has.
        assert ("Stage 'prepare' is cached - skipping run, checking out outputs" in heard) == (stage == "train")
    # Each works in a clone of its own, and the folder of the project is left alone.
    assert (system.home("cpu") / "data/predict/file.txt").exists()
    assert not (system.home("gpu") / "data/predict").exists()
    assert not (system.project.folder / "data").exists()
    artifacts = system.ask("/artifacts/filter", artifacts={"key": {"any_": ["gate"]}})
    assert "# Gate: pass" in artifacts[0]["data"]


def test_a_worker_refuses_what_is_not_its_own_and_what_was_changed(system: System) -> None:
    run = system.ended(system.start("stage/train", stage="simulate", commit="HEAD"))
    assert (run["state"]["type"], run["state"]["name"]) == ("FAILED", "BadInput")
    assert run["state"]["message"] == "simulate: not a stage of this machine, which is for: train compress"

    stray = system.home("gpu") / "stray.py"
    stray.touch()
    run = system.ended(system.start("stage/train", commit="HEAD"))
    stray.unlink()
    assert run["state"]["name"] == "BadInput"
    assert "holds changes that are in no commit: stray.py" in run["state"]["message"]
    assert run["run_count"] == 1


def test_only_what_may_go_well_is_tried_again(system: System) -> None:
    """A remote that comes back in time costs a retry; a gate that refuses ends the run at once."""
    remote = system.project.folder / ".dvc-remote"
    remote.rename(remote.with_name("away"))
    run = system.start("stage/train", commit="HEAD")
    until(lambda: any("Retry 1/2" in line for line in system.said(run)), "a retry")
    remote.with_name("away").rename(remote)
    found = system.ended(run)
    assert (found["state"]["type"], found["state"]["message"]) == ("COMPLETED", "train: unchanged")

    system.project.behave(gate={"fail_gate": True}, approve={"exit": 3})
    system.project.commit()
    run = system.start("pipeline/nightly")
    found = system.ended(run)
    assert (found["state"]["type"], found["state"]["name"]) == ("FAILED", "Refused")
    assert found["state"]["message"].startswith("approve refused: severity_mae of int8 on all: 0.4, at most 0.3.")
    heard = system.said(run)
    assert not any("Retry" in line for line in heard)
    assert "promoted" not in heard
    assert "train says hello" not in heard  # not made anew, here or there


def test_a_showcase_that_fails_loses_no_result_and_is_reported_in_one_line(system: System) -> None:
    system.project.behave(train={"other": 1}, predict={"exit": 2})
    commit = system.project.commit()
    run = system.start("pipeline/nightly")
    found = system.ended(run)
    assert (found["state"]["name"], found["state"]["message"]) == ("BadInput", "predict: predict says why")
    heard = system.said(run)
    assert "promoted" in heard
    assert heard.index("promoted") > next(n for n, line in enumerate(heard) if line.startswith("dvc push"))
    clone = system.project.folder / "other"
    subprocess.run(["git", "clone", "--quiet", str(system.project.folder), str(clone)], check=True)
    (clone / ".dvc/config.local").write_text(f"['remote \"local\"']\n    url = {system.project.folder}/.dvc-remote\n")
    with contextlib.chdir(clone):
        assert clones.take(commit) == commit
        assert reproduce("package", str, pull=True, only=()) == "restored"
    shutil.rmtree(clone)
    log = (system.project.folder / ".plumbline/system/cpu.log").read_text()
    assert "Traceback" not in log
    assert "predict: predict says why" in log
    assert not [task for task in system.ask("/task_runs/filter", limit=200) if "{" in task["name"]]
    system.project.behave()
    system.project.commit()


def test_a_lost_machine_is_noticed_and_its_run_can_be_retried(system: System) -> None:
    """Worker and flow killed together tell nobody: without a sign of life the server ends the run."""
    (silent,) = [found for found in system.ask("/automations/filter") if found["name"] == "plumbline-silent"]
    assert silent["enabled"]
    assert silent["trigger"]["within"] >= 3 * 30
    system.project.behave(train={"sleep": 3600})
    system.project.commit()
    run = system.start("stage/train", commit="HEAD")
    stage = stage_process("train", system.home("gpu"))
    assert system.run(run)["state"]["type"] == "RUNNING"
    system.kill("gpu")
    until_gone(stage)
    assert system.project.run(*SYSTEM, "status")[0] == 1

    nightly = system.call("GET", "/deployments/name/pipeline/nightly")
    (schedule,) = nightly["schedules"]
    system.call("PATCH", f"/deployments/{nightly['id']}/schedules/{schedule['id']}", {"active": False})
    system.call("PATCH", "/work_pools/project", {"is_paused": True})

    # `make up` brings back the one worker, lets the others go on, and what somebody has paused is paused still.
    others = {pid for pid, service in system.processes().items() if service in ("server", "cpu")}
    code, said = system.project.run(*SYSTEM, "up")
    assert code == 0, said
    assert "Starting worker gpu" in said
    assert "Starting worker cpu" not in said
    assert others <= set(system.processes())
    assert "Paused, as before: nightly" in said
    assert not system.call("GET", "/deployments/name/pipeline/nightly")["schedules"][0]["active"]
    assert system.call("GET", "/work_pools/project")["is_paused"]

    found = system.ended(run)
    assert found["state"]["name"] == "Crashed"
    assert found["state"]["message"].startswith("No sign of life")
    system.project.behave()
    system.project.commit()
    found = system.retried(run)
    assert found["state"]["type"] == "COMPLETED", system.said(run)
    assert found["state"]["message"].startswith("train: ")


def test_down_ends_all_of_it_and_nothing_else(system: System) -> None:
    system.project.behave(train={"sleep": 3601})
    system.project.commit()
    run = system.start("stage/train", commit="HEAD")
    stage = stage_process("train", system.home("gpu"))
    code, said = system.project.run(*SYSTEM, "down")
    assert code == 0, said
    (told,) = re.findall(r"Stopped: (.*)\.", said)
    assert set(told.split(", ")) == {"server", "cpu", "gpu", "project-1", "project-2"}
    assert "to be retried: train" in said
    assert not system.processes()
    until_gone(stage)
    with pytest.raises(httpx.TransportError):
        system.api.get("/health")
    with sqlite3.connect(system.project.folder / ".plumbline/system/prefect/prefect.db") as database:
        (state,) = database.execute("SELECT state_type FROM flow_run WHERE id = ?", [run]).fetchone()
    assert state == "CRASHED"  # and not Running for ever
    assert system.project.run(*SYSTEM, "down")[1] == "It is not up.\n"
    assert system.project.run(*SYSTEM, "status")[0] == 1


def test_a_start_that_fails_says_why_and_leaves_nothing(system: System) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        system.project.environment["PLUMBLINE_PORT"] = str(taken.getsockname()[1])
        code, said = system.project.run(*SYSTEM, "up")
    assert code == 2
    assert "is not free" in said
    assert "PLUMBLINE_PORT=" in said

    system.project.environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = "sqlite+aiosqlite:////nowhere/at/all.db"
    code, said = system.project.run(*SYSTEM, "up")
    assert code == 1
    assert "server: it ended at once. The end of .plumbline/system/server.log:" in said
    assert "unable to open database file" in said
    assert not system.processes()
    assert not (system.project.folder / ".plumbline/system/record.json").exists()
