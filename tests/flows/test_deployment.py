"""The nightly deployment on a real server: it gets its scheduled runs, and a worker runs one of them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.flows.conftest import PREFECT, Project, Server, service, wait_for


@pytest.fixture
def api(project: Project, prefect_server: Server) -> Iterator[httpx.Client]:
    """The server that the test's processes talk to, too."""
    project.environment |= {
        "PREFECT_API_URL": prefect_server.url, "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PLUMBLINE_HOME": str(project.folder),
    }  # fmt: skip
    with httpx.Client(base_url=prefect_server.url, timeout=30) as client:
        yield client


def ask(client: httpx.Client, path: str, **body: Any) -> Any:
    return client.post(path, json=body).raise_for_status().json()


@pytest.mark.slow
def test_the_nightly_deployment_is_scheduled_and_a_worker_runs_it(
    project: Project, prefect_server: Server, api: httpx.Client
) -> None:
    for command in (["work-pool", "create", "--type", "process", "cpu"], ["--no-prompt", "deploy", "--all"]):
        subprocess.run([PREFECT, *command], cwd=project.folder, env=project.environment, check=True)
    deployment = api.get("/deployments/name/pipeline/nightly").raise_for_status().json()
    assert deployment["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
    ours = {"deployments": {"id": {"any_": [deployment["id"]]}}}

    runs = wait_for(
        lambda: ask(api, "/flow_runs/filter", **ours, sort="EXPECTED_START_TIME_ASC"),
        "a scheduled run", prefect_server.log,
    )  # fmt: skip
    assert {run["state"]["type"] for run in runs} == {"SCHEDULED"}
    assert all(run["expected_start_time"][11:16] == "02:00" for run in runs)

    # Not to wait for the night: the first of the scheduled runs becomes due now.
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    due = {"type": "SCHEDULED", "state_details": {"scheduled_time": now}}
    ask(api, f"/flow_runs/{runs[0]['id']}/set_state", state=due, force=True)
    with service(project.folder, project.environment, "worker", "start", "--pool", "cpu") as log:
        run = wait_for(lambda: ended(api, runs[0]["id"]), "the run's end", log)
        assert run["state"]["type"] == "COMPLETED", log.read_text()
    assert run["state"]["message"].startswith("recomputed: simulate")
    assert (project.folder / "data/predict/file.txt").exists()
    of_run = {"flow_run_id": {"any_": [run["id"]]}}
    artifacts = ask(api, "/artifacts/filter", artifacts={"key": {"any_": ["gate"]}, **of_run})
    assert "# Gate: pass" in artifacts[0]["data"]
    logs = ask(api, "/logs/filter", logs=of_run)
    assert "train says hello" in [line["message"] for line in logs]


def ended(client: httpx.Client, run: str) -> Any:
    found = client.get(f"/flow_runs/{run}").raise_for_status().json()
    return found if found["state"]["type"] in {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"} else None
