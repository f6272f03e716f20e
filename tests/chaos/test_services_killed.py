"""A worker killed, and the server killed while runs are at work, on a system whose stages take no time."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.chaos.machines import Broken, heard, system_of
from tests.chaos.table import Fault
from tests.flows.conftest import make_project, stage_process
from tests.waiting import until, until_gone

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def system(prefect_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broken]:
    project = make_project(tmp_path_factory.mktemp("scratch"))
    home = project.folder / ".plumbline/system/prefect"
    home.mkdir(parents=True)
    shutil.copy(prefect_database, home)
    with system_of(project) as found:
        yield found


def test_worker_killed(system: Broken, fault: Fault) -> None:
    """The worker alone: the flow that it started goes on without it."""
    fault.key, fault.name = "02-worker-killed", "worker killed (-9) at work"
    system.project.behave(train={"sleep": 40})
    system.project.commit()
    run = system.start("pipeline/nightly")
    stage = stage_process("train", system.home("gpu"))
    system.kill_leader("gpu")
    time.sleep(5)
    # Who logs a line into the pipe that the worker has left is ended by it (rich: SystemExit), and the stage with it.
    fault.saw(
        "the flow goes on; `make up` ends it as Crashed"
        if psutil.pid_exists(stage)
        else "the flow ends as Crashed with the next line that it logs, and its stage with it"
    )
    fault.mended()
    assert "Starting worker gpu" in system.up()
    until_gone(stage)
    found = system.ended(run)
    assert found["state"]["type"] == "COMPLETED", system.said(run)
    fault.recovered()
    assert sorted(one["state"]["type"] for one in system.runs_of("train")) == ["COMPLETED", "CRASHED"]
    fault.holds("the pipeline asks again by itself and completes")
    assert [heard(system.said(run), stage) for stage in ("simulate", "ingest", "prepare", "export")] == [1] * 4
    fault.holds("finished stages are not repeated")
    system.everything_is_quiet()
    fault.holds("nothing is left running")

    # And the new worker works: a commit that changes one stage.
    system.project.behave(train={"sleep": 0})
    system.project.commit()
    found = system.ended(system.start("pipeline/nightly"))
    assert found["state"]["type"] == "COMPLETED", found
    assert found["state"]["message"].startswith("recomputed: train")
    fault.holds("the new worker takes the next run")


def test_server_killed(system: Broken, fault: Fault) -> None:
    fault.key, fault.name = "04-server-killed", "server killed (-9) and started again during a run"
    system.project.behave(train={"sleep": 20}, export={"sleep": 20})
    system.project.commit()
    run = system.start("pipeline/nightly")
    stage = stage_process("train", system.home("gpu"))
    system.kill("server")
    workers = {pid for pid, service in system.processes().items() if service != "server"}
    until_gone(stage)  # it has ended, and its flow has something to tell
    assert {pid for pid in workers if psutil.pid_exists(pid)} & set(system.processes())
    fault.saw("workers, flows and stages go on")
    fault.mended()
    said = system.up()
    assert "Starting Prefect's server" in said
    found = system.ended(run)
    if found["state"]["type"] != "COMPLETED":
        fault.saw(f"the run ended as {found['state']['name']}: “{found['state']['message']}”")
        found = system.retried(run)
    assert found["state"]["type"] == "COMPLETED", system.said(run)
    fault.recovered()
    fault.holds("the run completes" if found["run_count"] == 1 else "its retry completes")
    assert heard(system.said(run), "export") == 1
    fault.holds("no stage is made twice")
    system.everything_is_quiet()
    fault.holds("nothing is left running")
    assert (system.home("gpu") / "data/train/file.txt").read_text() == "train"

    # Schedules and automations outlived it.
    nightly = system.api.get("/deployments/name/pipeline/nightly").raise_for_status().json()
    ours = {"deployments": {"id": {"any_": [nightly["id"]]}}, "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}
    assert until(lambda: system.ask("/flow_runs/filter", **ours), "a scheduled run")
    fault.holds("schedules go on")


def test_machine_restored_from_an_old_clone(system: Broken, tmp_path: Path, fault: Fault) -> None:
    """Both machines come back as they were some commits ago: commit, DVC's cache and record, all of the clone."""
    fault.key, fault.name = "09-old-clone", "machines restored from old clones"
    folder = system.project.folder
    homes = folder / ".plumbline/system/clones"
    shutil.copytree(homes, tmp_path / "old", symlinks=True)
    system.project.behave(prepare={"other": 1}, train={"other": 1})
    commit = system.project.commit()
    found = system.ended(system.start("pipeline/nightly"))
    assert found["state"]["type"] == "COMPLETED", found
    assert found["state"]["message"].startswith("recomputed: prepare, train")

    system.kill("cpu", "gpu")
    shutil.rmtree(homes)
    shutil.copytree(tmp_path / "old", homes, symlinks=True)
    fault.saw("the clones take the commit and restore its results")
    fault.mended()
    system.up()
    run = system.start("pipeline/nightly")
    found = system.ended(run)
    assert found["state"]["type"] == "COMPLETED", system.said(run)
    fault.recovered()
    assert found["state"]["message"] == "nothing was recomputed"
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=homes / "cpu", capture_output=True, text=True, check=True)
    assert head.stdout.strip() == commit
    fault.holds("the next run catches up and computes nothing twice")
    system.everything_is_quiet()
