"""`plumbline doctor` before a real Prefect server, with a worker and without."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plumbline.doctor.probes import Place, State
from plumbline.doctor.servers import check_server
from tests.doctor.servers import answering
from tests.ports import free_port
from tests.waiting import until

PLACE = Place(frozenset())
PREFECT = (sys.executable, "-m", "prefect")


def said() -> str:
    return "\n".join(f"{item.state}: {item.found}" for item in check_server(PLACE))


@pytest.mark.chaos
@pytest.mark.slow
def test_a_server_its_pool_and_its_worker(
    prefect_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(prefect_database, tmp_path)
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_API_URL", url)
    monkeypatch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    (tmp_path / "prefect.yaml").write_text("deployments:\n- {name: nightly, work_pool: {name: cpu}}\n")
    with answering([*PREFECT, "server", "start", "--host", "127.0.0.1", "--port", str(port)], f"{url}/health"):
        assert "fault: prefect.yaml sends runs to the work pool cpu, which the server does not have" in said()
        subprocess.run([*PREFECT, "work-pool", "create", "--type", "process", "cpu"], check=True, capture_output=True)
        assert "ok: http://127.0.0.1" in said()
        assert "fault: the work pool cpu has no worker that is alive" in said()
        with answering([*PREFECT, "worker", "start", "--pool", "cpu", "--name", "one"], None):
            until(lambda: "alive (one)" in said(), "a worker that is alive", found=said, pause_s=0.4)
            assert {item.state for item in check_server(PLACE)} == {State.OK}, said()
        subprocess.run([*PREFECT, "work-pool", "pause", "cpu"], check=True, capture_output=True)
        assert "warning: the work pool cpu is paused" in said()
    assert said().startswith(f"fault: {url}: the Prefect server does not answer")
