"""The nightly deployment on a real server: it gets its scheduled runs, and a worker runs one of them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.flows.conftest import Project

PREFECT = str(Path(sys.executable).with_name("prefect"))
TIMEOUT_SECONDS = 120


@contextmanager
def service(project: Project, *arguments: str) -> Iterator[Path]:
    """Run a part of Prefect beside the test, in a process group that ends with the block; its log is a file."""
    log = project.folder / f"{arguments[0]}.log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [PREFECT, *arguments],
            cwd=project.folder, env=project.environment, stdout=stream, stderr=stream, process_group=0,
        )  # fmt: skip
        try:
            yield log
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def api(project: Project, prefect_home: None) -> Iterator[httpx.Client]:
    """A server with a database of its own on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    project.environment |= {
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "true",
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PLUMBLINE_HOME": str(project.folder),
    }
    with ExitStack() as stack:
        log = stack.enter_context(service(project, "server", "start", "--host", "127.0.0.1", "--port", str(port)))
        client = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}/api", timeout=30))
        wait_for(lambda: healthy(client), "the server's health", log)
        yield client


def healthy(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def wait_for(question: Any, what: str, log: Path) -> Any:
    """The first answer that is not empty."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < end:
        if answer := question():
            return answer
        time.sleep(0.5)
    raise TimeoutError(f"{what} did not come\n{log.read_text()}")


def ask(client: httpx.Client, path: str, **body: Any) -> Any:
    return client.post(path, json=body).raise_for_status().json()


@pytest.mark.slow
def test_the_nightly_deployment_is_scheduled_and_a_worker_runs_it(project: Project, api: httpx.Client) -> None:
    for command in (["work-pool", "create", "--type", "process", "cpu"], ["--no-prompt", "deploy", "--all"]):
        subprocess.run([PREFECT, *command], cwd=project.folder, env=project.environment, check=True)
    deployment = api.get("/deployments/name/pipeline/nightly").raise_for_status().json()
    assert deployment["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
    ours = {"deployments": {"id": {"any_": [deployment["id"]]}}}

    runs = wait_for(
        lambda: ask(api, "/flow_runs/filter", **ours, sort="EXPECTED_START_TIME_ASC"),
        "a scheduled run", project.folder / "server.log",
    )  # fmt: skip
    assert {run["state"]["type"] for run in runs} == {"SCHEDULED"}
    assert all(run["expected_start_time"][11:16] == "02:00" for run in runs)

    # Not to wait for the night: the first of the scheduled runs becomes due now.
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    due = {"type": "SCHEDULED", "state_details": {"scheduled_time": now}}
    ask(api, f"/flow_runs/{runs[0]['id']}/set_state", state=due, force=True)
    with service(project, "worker", "start", "--pool", "cpu") as log:
        run = wait_for(lambda: ended(api, runs[0]["id"]), "the run's end", log)
        assert run["state"]["type"] == "COMPLETED", log.read_text()
    assert run["state"]["message"].startswith("recomputed: simulate")
    assert (project.folder / "data/predict/file.txt").exists()
    artifacts = ask(api, "/artifacts/filter", artifacts={"key": {"any_": ["gate"]}})
    assert "# Gate: pass" in artifacts[0]["data"]
    logs = ask(api, "/logs/filter", logs={"flow_run_id": {"any_": [run["id"]]}})
    assert "train says hello" in [line["message"] for line in logs]


def ended(client: httpx.Client, run: str) -> Any:
    found = client.get(f"/flow_runs/{run}").raise_for_status().json()
    return found if found["state"]["type"] in {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"} else None
