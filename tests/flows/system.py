"""A whole system of `make up`: what is asked of it, and ways to break it."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil

from flows.orchestration.services import MARK
from tests.flows.conftest import Project
from tests.ports import free_port
from tests.waiting import PATIENCE_S, until

SYSTEM = ("-m", "flows.orchestration.system")
ENDED = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
AT_WORK = ("prefect.engine", "prefect flow-run", " dvc ", "bin/plumbline", "stage.py")
"""What the command line of a flow, of DVC and of a stage holds, and that of a server or a worker does not."""


class System:
    """A scratch project with its server and workers."""

    def __init__(self, project: Project, port: int) -> None:
        self.project = project
        project.environment |= {"PLUMBLINE_PORT": str(port), "PREFECT_API_URL": f"http://127.0.0.1:{port}/api"}
        self.api = httpx.Client(base_url=f"http://127.0.0.1:{port}/api", timeout=PATIENCE_S)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """As Prefect's own clients do, asks again where the server is busy: SQLite may keep it waiting for a minute."""

        def ask() -> httpx.Response | None:
            try:
                answer = self.api.request(method, path, json=body)
            except httpx.TimeoutException:
                return None
            return None if answer.status_code == 503 else answer

        answer = until(ask, f"an answer to {path}", pause_s=1.0) or httpx.Response(503)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def ask(self, path: str, **body: Any) -> Any:
        return self.call("POST", path, body)

    def home(self, worker: str) -> Path:
        return self.project.folder / ".plumbline/system/clones" / worker

    def processes(self) -> dict[int, str]:
        """All that carries the mark of this project's system: number and service."""
        found = {}
        for process in psutil.process_iter():
            try:
                mark, folder = process.environ().get(MARK), process.environ().get("PREFECT_HOME", "")
            except (psutil.Error, OSError):
                continue
            if mark and folder.startswith(str(self.project.folder)) and process.status() != psutil.STATUS_ZOMBIE:
                found[process.pid] = mark.split()[1]
        return found

    def start(self, deployment: str, **parameters: Any) -> str:
        found = self.call("GET", f"/deployments/name/{deployment}")
        # The key makes of a question that is asked again one run.
        body = {"parameters": parameters, "idempotency_key": uuid4().hex}
        run: str = self.ask(f"/deployments/{found['id']}/create_flow_run", **body)["id"]
        return run

    def run(self, run: str) -> Any:
        return self.call("GET", f"/flow_runs/{run}")

    def ended(self, run: str) -> Any:
        return until(lambda: found if (found := self.run(run))["state"]["type"] in ENDED else None, "its end")

    def said(self, run: str) -> list[str]:
        lines = self.ask("/logs/filter", logs={"flow_run_id": {"any_": [run]}}, sort="TIMESTAMP_ASC", limit=200)
        return [line["message"] for line in lines]

    def kill(self, service: str) -> None:
        """Kill (-9) all that was started for a service: as when its machine is lost."""
        for pid, name in self.processes().items():
            if name == service:
                _kill(pid)

    def kill_leader(self, service: str) -> None:
        """Kill (-9) the worker, or the server's first process, and nothing that it started."""
        ours = {pid for pid, name in self.processes().items() if name == service}
        (leader,) = [pid for pid in ours if psutil.Process(pid).ppid() not in ours]
        _kill(leader)

    def up(self) -> str:
        """`make up` again."""
        code, said = self.project.run(*SYSTEM, "up")
        assert code == 0, said
        return said

    def retried(self, run: str) -> Any:
        """The run, once it has ended after a retry, as an operator asks for it."""
        before = self.run(run)["run_count"]
        code, output = self.project.run("-m", "prefect", "--no-prompt", "flow-run", "retry", run)
        assert code == 0, output

        def look() -> Any:
            found = self.run(run)
            return found if found["run_count"] > before and found["state"]["type"] in ENDED else None

        return until(look, "its end")

    def at_work(self) -> list[str]:
        """Names of the runs that say they are at work, or about to be."""
        states = {"type": {"any_": ["RUNNING", "PENDING", "CANCELLING"]}}
        return [run["name"] for run in self.ask("/flow_runs/filter", flow_runs={"state": states})]

    def runs_of(self, name: str) -> list[Any]:
        """Runs of the flow `stage` for a stage, the newest first."""
        return list(self.ask("/flow_runs/filter", flow_runs={"name": {"any_": [name]}}, sort="START_TIME_DESC"))

    def everything_is_quiet(self) -> None:
        """No run says that it is at work, and no stage or flow is left."""
        until(lambda: not self.at_work(), "an end of all runs")
        until(lambda: not self._engines(), "an end of all processes")

    def _engines(self) -> list[int]:
        """Whatever of the system is neither server nor worker: flows, DVC, stages."""
        found = []
        for pid in self.processes():
            try:
                words = " ".join(psutil.Process(pid).cmdline())
            except psutil.Error:
                continue
            if any(word in words for word in AT_WORK):
                found.append(pid)
        return found


@contextmanager
def system_of(project: Project, database: Path) -> Iterator[System]:
    """Bring the system of a project up, with a copy of an empty database; take it down, whatever happens."""
    home = project.folder / ".plumbline/system/prefect"
    home.mkdir(parents=True)
    shutil.copy(database, home)
    system = System(project, free_port())
    try:
        system.up()
        yield system
    finally:
        project.run(*SYSTEM, "down")


def stage_at_work(stage: str, home: Path) -> int:
    """Number of the process of a real stage in a clone."""

    def look() -> int | None:
        for process in psutil.process_iter(["cmdline", "cwd"]):
            words = process.info["cmdline"] or []
            ours = process.info["cwd"] == str(home) and words[-1:] == [stage]
            if ours and any("plumbline" in word for word in words[:2]):
                return int(process.pid)
        return None

    return int(until(look, f"the stage {stage}"))


def heard(lines: list[str], stage: str) -> int:
    """How often the log of a run tells of DVC starting a stage."""
    return sum(f"Running stage '{stage}'" in line for line in lines)


def checkpoint_after(home: Path, stage: str, epochs: int) -> None:
    """Return once a training in a clone has written its checkpoint some epochs after the first."""
    written: set[int] = set()

    def enough() -> bool:
        for path in (home / ".plumbline/checkpoints").glob(f"{stage}-*/last.ckpt"):
            try:
                written.add(path.stat().st_mtime_ns)
            except OSError:
                continue
        return len(written) >= epochs

    until(enough, "a checkpoint", found=lambda: written, pause_s=0.02)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
