"""Jobs of the service on a work pool of a real Prefect server, done by a real worker."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from plumbline.service.runner import ADDRESS
from tests.flows.conftest import PREFECT, ROOT, Server, service
from tests.service.served import ended, files, process
from tests.waiting import PATIENCE_S, until

pytest.importorskip("fastapi")
pytestmark = pytest.mark.chaos
POOL = "service"


def runs(server: Server, job: str) -> list[dict[str, Any]]:
    """The flow runs of a job."""
    asked = {"flow_runs": {"name": {"any_": [job]}}}
    found: list[dict[str, Any]] = httpx.post(f"{server.url}/flow_runs/filter", json=asked, timeout=PATIENCE_S).json()
    return found


def test_a_worker_does_the_jobs_and_one_is_not_lost_or_done_twice_when_the_service_dies(
    prefect_server: Server, tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ADDRESS, prefect_server.url)
    environment = os.environ | {"PREFECT_HOME": str(tmp_path / "home"), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    pool = {"name": POOL, "type": "process"}
    httpx.post(f"{prefect_server.url}/work_pools/", json=pool, timeout=PATIENCE_S).raise_for_status()
    deploy = [PREFECT, "--no-prompt", "deploy", "--name", "service-job", "--pool", POOL, "-jv", f"working_dir={ROOT}"]
    subprocess.run(deploy, cwd=ROOT, env=environment, check=True, capture_output=True)
    folder = tmp_path / "service"
    given = files(tiny.products(), tiny.footprints)
    with httpx.Client(timeout=PATIENCE_S) as client:
        with process(folder, tiny.data("package")) as (begun, address):
            waiting = client.post(f"{address}/v1/predict", files=given).json()["id"]
            until(lambda: runs(prefect_server, waiting), "a flow run of the job", found=prefect_server.log)
            begun.send_signal(signal.SIGKILL)
            begun.wait()
        worker = ("worker", "start", "--pool", POOL, "--limit", "1")
        with service(tmp_path, environment, *worker), process(folder, tiny.data("package")) as (_, address):
            assert ended(client, waiting, address)["status"] == "done"
            answer = client.get(f"{address}/v1/jobs/{waiting}/result", headers={"accept": "text/csv"})
            assert answer.text.startswith("building_id,status")
            (run,) = runs(prefect_server, waiting)
            assert run["state_type"] == "COMPLETED"
            bad = [("points", ("a.csv", b"no table\n")), *[one for one in given if one[0] == "buildings"]]
            broken = client.post(f"{address}/v1/predict", files=bad).json()["id"]
            failed = ended(client, broken, address)
            assert failed["status"] == "failed"
            assert "a.csv" in failed["problem"]["detail"]
