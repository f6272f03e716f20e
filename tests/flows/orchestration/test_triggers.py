"""The deployments `score` and `retrain` on a real server: an event starts the one it is meant for, and no other."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.flows.conftest import PREFECT, Project, Server
from tests.waiting import PATIENCE_S, until


@pytest.fixture
def api(project: Project, prefect_server: Server) -> Iterator[httpx.Client]:
    """The shared server, for the project's commands too."""
    project.environment |= {"PREFECT_API_URL": prefect_server.url, "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    with httpx.Client(base_url=prefect_server.url, timeout=PATIENCE_S) as client:
        yield client


def ask(api: httpx.Client, path: str, **body: Any) -> Any:
    return api.post(path, json=body).raise_for_status().json()


@pytest.mark.slow
def test_drift_starts_retrain_with_its_delivery_and_a_delivery_starts_score(
    project: Project, api: httpx.Client, prefect_server: Server
):
    for pool in ("cpu", "gpu", "project"):
        ask(api, "/work_pools/", name=pool, type="process")
    command = [PREFECT, "--no-prompt", "deploy", "--all"]
    subprocess.run(command, cwd=project.folder, env=project.environment, check=True)
    made = {
        name: api.get(f"/deployments/name/{name}/{name}").raise_for_status().json() for name in ("score", "retrain")
    }
    deployments = {name: one["id"] for name, one in made.items()}
    assert {name: one["concurrency_options"]["collision_strategy"] for name, one in made.items()} == {
        "score": "CANCEL_NEW",  # the next look sees what this one would have
        "retrain": "ENQUEUE",  # an event comes once a delivery
    }
    assert {one["global_concurrency_limit"]["limit"] for one in made.values()} == {1}

    def emit(event: str, payload: dict[str, Any]) -> None:
        """As `prefect event emit` does."""
        one = {
            "id": str(uuid4()),
            "occurred": datetime.now(UTC).isoformat(),
            "event": event,
            "payload": payload,
            "resource": {"prefect.resource.id": "plumbline.place.athens"},
        }
        api.post("/events", json=[one]).raise_for_status()

    def started(name: str) -> list[dict]:
        """Runs that no schedule has made."""
        runs = ask(api, "/flow_runs/filter", deployments={"id": {"any_": [deployments[name]]}})
        return [run for run in runs if not run["auto_scheduled"]]

    log = prefect_server.log
    command = [PREFECT, "event", "emit", "plumbline.delivery", "--resource-id", "plumbline.place.athens"]
    subprocess.run(command, cwd=project.folder, env=project.environment, check=True)
    until(lambda: started("score"), "a run of score", found=log)
    assert started("retrain") == []
    emit("plumbline.drift", {"place": "athens", "result": "2026-11-3fa94c1e", "reasons": ["noise"]})
    (run,) = until(lambda: started("retrain"), "a run of retrain", found=log)
    assert run["parameters"] == {"place": "athens", "result": "2026-11-3fa94c1e"}
    assert len(started("score")) == 1
    runs = ask(api, "/flow_runs/filter", deployments={"id": {"any_": [deployments["score"]]}})
    assert {run["expected_start_time"][14:16] for run in runs if run["auto_scheduled"]} <= {"00", "15", "30", "45"}
