"""Run jobs in processes or in work pools."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from plumbline.core.console import log, request_id, warn
from plumbline.core.errors import PlumblineError
from plumbline.core.files import write_json
from plumbline.service import job_store as job_files
from plumbline.service.job_store import JobRow, JobStore, Status
from plumbline.service.models import Models
from plumbline.service.monitoring import Meters
from plumbline.service.problems import Problem, problem_of
from plumbline.service.settings import ServiceSettings

ADDRESS, KEY, LOGIN = "PREFECT_API_URL", "PREFECT_API_KEY", "PREFECT_API_AUTH_STRING"
DEPLOYMENT = ("service-job", "service-job")
"""Names of flow and deployment, see prefect.yaml."""
SECONDS = 10.0
DONE = "COMPLETED"
OVER = (DONE, "FAILED", "CRASHED", "CANCELLED")


class PoolUnreachable(PlumblineError):
    """Prefect's server does not answer; the job waits."""


class PoolJob:
    """A job that a worker does on a machine with access to the service's folder."""

    outlives_service = True

    def __init__(self, run: str) -> None:
        """Attach to a flow run by its id."""
        self.run = run
        self.failure = f"Flow run {run} failed on its worker; the run's log in Prefect shows why."

    @classmethod
    def begin(cls, folder: Path) -> PoolJob:
        """Create a flow run for the job in `folder`.

        Raises:
            PoolUnreachable: the server does not answer, or has no such deployment.
        """
        flow, deployment = map(urllib.parse.quote, DEPLOYMENT)
        deployment_id = _call("GET", f"deployments/name/{flow}/{deployment}")["id"]
        flow_run = {
            "parameters": {"folder": str(folder)},
            "name": folder.name,
            "idempotency_key": folder.name,
        }
        return cls(
            str(_call("POST", f"deployments/{deployment_id}/create_flow_run", flow_run)["id"])
        )

    def poll(self) -> int | None:
        """Return 0 if the job is done, 1 if it failed, None while it runs."""
        state = _call("GET", f"flow_runs/{self.run}")["state_type"]
        return None if state not in OVER else int(state != DONE)

    def end(self) -> None:
        """Cancel the flow run; its worker ends the process."""
        _call("POST", f"flow_runs/{self.run}/set_state", {"state": {"type": "CANCELLING"}})

    def memory_mb(self) -> float:
        """Return 0: the worker limits its memory."""
        return 0.0


def _call(method: str, path: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the JSON that Prefect's server answers."""
    address = f"{os.environ[ADDRESS].rstrip('/')}/{path}"
    if not address.startswith(("http://", "https://")):
        raise PoolUnreachable(
            f"{ADDRESS}: an address that begins with http is needed.", key="prefect.wrong_address"
        )
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(KEY):
        headers["Authorization"] = f"Bearer {key}"
    elif login := os.environ.get(LOGIN):
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(address, body, headers, method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as response:  # noqa: S310
            answer: dict[str, Any] = json.load(response)
    except (OSError, ValueError) as error:
        raise PoolUnreachable(
            f"{ADDRESS}: Prefect's server does not answer ({type(error).__name__}).",
            key="prefect.no_answer",
        ) from error
    return answer


SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_BETWEEN_SWEEPS = 30.0
SECONDS_UNREACHABLE = 5.0
PROGRAM = "plumbline.service.job_process"


class LocalJob:
    """A job in its own process group on this machine."""

    outlives_service = False
    failure = "The job's process was ended from outside, for want of memory perhaps."

    def __init__(self, folder: Path) -> None:
        """Start the job in `folder`."""
        with (folder / job_files.LOG).open("ab") as log_file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM, str(folder), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def poll(self) -> int | None:
        """Return the exit code; None while the job runs."""
        return self._process.poll()

    def end(self) -> None:
        """Kill the process and its whole group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def memory_mb(self) -> float:
        """Return the resident memory of the process and its children, MB."""
        total_bytes = 0
        with suppress(psutil.Error):
            main = psutil.Process(self._process.pid)
            for process in (main, *main.children(recursive=True)):
                total_bytes += process.memory_info().rss
        return total_bytes / 1e6


@dataclass
class _RunningJob:
    job: JobRow
    work: LocalJob | PoolJob
    began: float = field(default_factory=time.monotonic)


class Runner(threading.Thread):
    """A thread that runs jobs as long as the service lives; their processes end with the
    service."""

    def __init__(
        self,
        root: Path,
        store: JobStore,
        models: Models,
        settings: ServiceSettings,
        meters: Meters,
    ) -> None:
        super().__init__(name="runner", daemon=True)
        self._root, self._store, self._models = root, store, models
        self._settings, self._limits, self._meters = settings, settings.limits, meters
        self._running: dict[str, _RunningJob] = {}
        self._ended = threading.Event()
        self._swept = -SECONDS_BETWEEN_SWEEPS

    def run(self) -> None:
        """Start and supervise jobs until `stop`."""
        while not self._ended.wait(SECONDS_BETWEEN_LOOKS):
            try:
                self._supervise()
            except Exception as error:  # a locked list or full disk may be temporary
                warn("jobs: %s", problem_of(error).detail, key="jobs.interrupted")

    def stop(self) -> None:
        """End the jobs that run, and put them back into the queue."""
        self._ended.set()
        self.join(timeout=10)
        for running in self._running.values():
            if not running.work.outlives_service:
                running.work.end()
            self._store.put_back(running.job.id)

    def _supervise(self) -> None:
        for running in list(self._running.values()):
            self._watch(running)
        request_id.set(None)
        if time.monotonic() - self._swept > SECONDS_BETWEEN_SWEEPS:
            self._swept = time.monotonic()
            self._sweep()
        if not self._ended.is_set() and len(self._running) < self._limits.jobs:
            job = self._store.claim(self._limits.jobs)
            if job is not None:
                self._start(job)

    def _start(self, job: JobRow) -> None:
        request_id.set(job.request_id)
        folder = self._root / job_files.JOBS / job.id
        task = {
            "request_id": job.request_id,
            "log_format": self._settings.log_format,
            "kind": job.kind,
            "options": job.options,
            "package": str(self._models.package(job.kind)),
            "points": self._limits.points,
            "footprints": self._limits.footprints,
            "tensor_buildings": self._limits.tensor_buildings,
            "basemap": self._settings.basemap,
        }
        try:
            for name in (job_files.PROBLEM, job_files.PROGRESS):  # of an earlier attempt
                (folder / name).unlink(missing_ok=True)
            write_json(folder / job_files.TASK, task)
            if not os.environ.get(ADDRESS):
                work: LocalJob | PoolJob = LocalJob(folder)
            elif job.remote is not None:
                work = PoolJob(job.remote)
            else:
                work = PoolJob.begin(folder)
                self._store.note_remote(job.id, work.run)
        except PoolUnreachable as error:
            warn("job %s: %s It waits.", job.id, error, key=error.key)
            self._store.put_back(job.id)
            self._ended.wait(SECONDS_UNREACHABLE)
            return
        except Exception as error:
            self._finish(job, "failed", problem_of(error).content)
            return
        self._running[job.id] = _RunningJob(job, work)
        log.info(
            "job %s: %s begins",
            job.id,
            job.kind,
            extra={"fields": {"job": job.id, "kind": job.kind}},
        )

    def _watch(self, running: _RunningJob) -> None:
        job, work = running.job, running.work
        request_id.set(job.request_id)
        code, row = work.poll(), self._store.get(job.id)
        is_cancelled = row is None or row.cancelled
        excess = self._excess(running) if code is None and not is_cancelled else None
        if code is None and not is_cancelled and excess is None:
            return
        if code is None or not work.outlives_service:  # also child processes that are left
            work.end()
        folder = self._root / job_files.JOBS / job.id
        if code == 0:
            self._finish(job, "done")
        elif is_cancelled:
            shutil.rmtree(folder, ignore_errors=True)  # before a client reads "cancelled"
            self._finish(job, "cancelled")
        else:
            problem = excess or Problem(500, work.failure, key="job.broken_off")
            self._finish(
                job, "failed", job_files.read_note(folder, job_files.PROBLEM) or problem.content
            )
        del self._running[job.id]

    def _excess(self, running: _RunningJob) -> Problem | None:
        """Return the problem of the limit that a job exceeds; None if it exceeds none."""
        limits = self._limits
        if time.monotonic() - running.began > 60 * limits.job_minutes:
            return Problem(
                422,
                f"The job took longer than {limits.job_minutes:g} minutes. Give a smaller area.",
                key="job.too_long",
            )
        if running.work.memory_mb() > limits.job_memory_mb:
            return Problem(
                422,
                f"The job needed more than {limits.job_memory_mb} MB of memory. Give a smaller "
                "area.",
                key="job.out_of_memory",
            )
        return None

    def _finish(self, job: JobRow, outcome: Status, problem: dict[str, Any] | None = None) -> None:
        """Record, count and log how a job ended."""
        self._store.finish(job.id, outcome, problem)
        seconds = time.time() - (job.started or job.created)
        self._meters.jobs.labels(job.kind, outcome).observe(seconds)
        fields = {"job": job.id, "kind": job.kind, "outcome": outcome, "seconds": round(seconds, 3)}
        log.info("job %s: %s after %.1f s", job.id, outcome, seconds, extra={"fields": fields})

    def _sweep(self) -> None:
        requeued, given_up = self._store.recover()
        for row in map(self._store.get, given_up):
            why = "The service ended several times while it did this job; it is not tried again."
            if row is not None:
                request_id.set(row.request_id)
                self._finish(row, "failed", Problem(500, why, key="job.given_up").content)
        request_id.set(None)
        if requeued:
            log.info("jobs: %d go on whose service had ended", len(requeued))
        for job in self._store.remove_ended(time.time() - 3600 * self._limits.keep_hours):
            shutil.rmtree(self._root / job_files.JOBS / job, ignore_errors=True)
        job_files.sweep(self._root, self._store.names())
