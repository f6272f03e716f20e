"""A whole system of `make up` in which things are killed: what is asked of it before, meanwhile and after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.flows.conftest import Project
from tests.flows.orchestration.test_system import ENDED, SYSTEM, System
from tests.ports import free_port
from tests.waiting import until

AT_WORK = ("prefect.engine", "flows.versioning.dvc_process", "prefect flow-run", " dvc ", "bin/plumbline", "stage.py")
"""What the command line of a flow, of DVC and of a stage holds, and that of a server or a worker does not."""


class Broken(System):
    """A system, and ways to break it."""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """A question is asked again where the answer takes long: SQLite may keep a busy server waiting for a minute."""
        for _ in range(5):
            try:
                return super().call(method, path, body)
            except httpx.TimeoutException:
                continue
        raise TimeoutError(f"{path}: no answer")

    @property
    def address(self) -> str:
        return str(self.api.base_url).rstrip("/")

    def kill(self, *services: str) -> list[int]:
        """Kill (-9) all that was started for these services: as when their machine is lost. Their numbers."""
        gone = [pid for pid, service in self.processes().items() if service in services]
        for pid in gone:
            _kill(pid)
        return gone

    def kill_leader(self, service: str) -> int:
        """Kill (-9) the worker, or the server's first process, and nothing that it started."""
        ours = {pid for pid, name in self.processes().items() if name == service}
        (leader,) = [pid for pid in ours if psutil.Process(pid).ppid() not in ours]
        _kill(leader)
        return leader

    def up(self) -> str:
        """`make up` again."""
        code, said = self.project.run(*SYSTEM, "up")
        assert code == 0, said
        return said

    def retry(self, run: str) -> None:
        """As an operator does."""
        command = [sys.executable, "-m", "prefect", "--no-prompt", "flow-run", "retry", run]
        environment = self.project.environment | {"PREFECT_API_URL": self.address}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def retried(self, run: str) -> Any:
        """The run, once it has ended after a retry."""
        before = self.run(run)["run_count"]
        self.retry(run)

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
def system_of(project: Project) -> Iterator[Broken]:
    """The system, up; it is taken down at the end, whatever happened."""
    found = Broken(project, free_port())
    try:
        found.up()
        yield found
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
