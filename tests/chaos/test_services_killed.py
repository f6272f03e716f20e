"""A worker killed, and the server killed while runs are at work, on a system whose stages take no time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.flows.conftest import make_project, stage_process
from tests.flows.system import System, heard, system_of
from tests.waiting import until, until_gone

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def system(prefect_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with system_of(make_project(tmp_path_factory.mktemp("scratch")), prefect_database) as running:
        yield running


def test_worker_killed(system: System) -> None:
    """The worker alone: the flow that it started goes on without it."""
    system.project.behave(train={"sleep": 40})
    system.project.commit()
    run = system.start("pipeline/nightly")
    stage = stage_process("train", system.home("gpu"))
    system.kill_leader("gpu")
    time.sleep(5)
    assert "Starting worker gpu" in system.up()
    until_gone(stage)
    found = system.ended(run)
    assert found["state"]["type"] == "COMPLETED", system.said(run)
    assert sorted(one["state"]["type"] for one in system.runs_of("train")) == ["COMPLETED", "CRASHED"]
    assert [heard(system.said(run), stage) for stage in ("simulate", "ingest", "prepare", "export")] == [1] * 4
    system.everything_is_quiet()

    # And the new worker works: a commit that changes one stage.
    system.project.behave(train={"sleep": 0})
    system.project.commit()
    found = system.ended(system.start("pipeline/nightly"))
    assert found["state"]["type"] == "COMPLETED", found
    assert found["state"]["message"].startswith("recomputed: train")


def test_server_killed(system: System) -> None:
    system.project.behave(train={"sleep": 20}, export={"sleep": 20})
    system.project.commit()
    run = system.start("pipeline/nightly")
    stage = stage_process("train", system.home("gpu"))
    system.kill("server")
    workers = {pid for pid, service in system.processes().items() if service != "server"}
    until_gone(stage)  # it has ended, and its flow has something to tell
    assert {pid for pid in workers if psutil.pid_exists(pid)} & set(system.processes())
    said = system.up()
    assert "Starting Prefect's server" in said
    found = system.ended(run)
    if found["state"]["type"] != "COMPLETED":
        found = system.retried(run)
    assert found["state"]["type"] == "COMPLETED", system.said(run)
    assert heard(system.said(run), "export") == 1
    system.everything_is_quiet()
    assert (system.home("gpu") / "data/train/file.txt").read_text() == "train"

    # Schedules and automations outlived it.
    nightly = system.api.get("/deployments/name/pipeline/nightly").raise_for_status().json()
    ours = {"deployments": {"id": {"any_": [nightly["id"]]}}, "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}
    assert until(lambda: system.ask("/flow_runs/filter", **ours), "a scheduled run")
