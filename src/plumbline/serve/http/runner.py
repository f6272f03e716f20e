"""Run the jobs of the list, each in its own process group, and end those that exceed a limit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from plumbline.core.console import log
from plumbline.core.files import write_json
from plumbline.serve.http import job_files, work_pool
from plumbline.serve.http.job_store import JobRow, JobStore
from plumbline.serve.http.models import Models
from plumbline.serve.http.problems import Problem, problem_of
from plumbline.serve.http.settings import Settings
from plumbline.serve.http.work_pool import PoolJob, PoolUnreachable

SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_BETWEEN_SWEEPS = 30.0
SECONDS_UNREACHABLE = 5.0
PROGRAM = "plumbline.serve.http.job_process"


class LocalJob:
    """A job in its own process group on this machine."""

    def __init__(self, folder: Path) -> None:
        """Start the job in `folder`."""
        with (folder / job_files.LOG).open("ab") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM, str(folder), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=said,
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
        total = 0
        with suppress(psutil.Error):
            whole = psutil.Process(self._process.pid)
            for one in (whole, *whole.children(recursive=True)):
                total += one.memory_info().rss
        return total / 1e6


@dataclass
class _Running:
    job: JobRow
    work: LocalJob | PoolJob
    began: float = field(default_factory=time.monotonic)


class Runner(threading.Thread):
    """A thread that runs jobs as long as the service lives; their processes end with the service."""

    def __init__(self, root: Path, store: JobStore, models: Models, settings: Settings) -> None:
        super().__init__(name="runner", daemon=True)
        self._root, self._store, self._models = root, store, models
        self._settings, self._limits = settings, settings.limits
        self._running: dict[str, _Running] = {}
        self._ended = threading.Event()
        self._swept = -SECONDS_BETWEEN_SWEEPS

    def run(self) -> None:
        """Start and supervise jobs until `stop`."""
        while not self._ended.wait(SECONDS_BETWEEN_LOOKS):
            try:
                self._look()
            except Exception as error:  # a locked list or a full disk passes; the jobs go on meanwhile
                log.warning("jobs: %s", problem_of(error).detail)

    def stop(self) -> None:
        """End the jobs that run, and put them back into the queue."""
        self._ended.set()
        self.join(timeout=10)
        for one in self._running.values():
            if isinstance(one.work, LocalJob):  # what a worker does goes on without this service
                one.work.end()
            self._store.put_back(one.job.id)

    def _look(self) -> None:
        for one in list(self._running.values()):
            self._watch(one)
        if time.monotonic() - self._swept > SECONDS_BETWEEN_SWEEPS:
            self._swept = time.monotonic()
            self._sweep()
        if not self._ended.is_set() and len(self._running) < self._limits.jobs:
            job = self._store.claim(self._limits.jobs)
            if job is not None:
                self._start(job)

    def _start(self, job: JobRow) -> None:
        folder = self._root / job_files.JOBS / job.id
        task = {
            "kind": job.kind,
            "options": job.options,
            "package": str(self._models.package(job.kind)),
            "points": self._limits.points,
            "footprints": self._limits.footprints,
            "basemap": self._settings.basemap,
        }
        try:
            for stale in (job_files.PROBLEM, job_files.PROGRESS):
                (folder / stale).unlink(missing_ok=True)
            write_json(folder / job_files.TASK, task)
            work = self._begin(job, folder.resolve())
        except PoolUnreachable as error:
            log.warning("job %s: %s It waits.", job.id, error)
            self._store.put_back(job.id)
            self._ended.wait(SECONDS_UNREACHABLE)
            return
        except Exception as error:
            self._store.finish(job.id, "failed", problem_of(error).content)
            return
        self._running[job.id] = _Running(job, work)
        log.info("job %s: %s begins", job.id, job.kind)

    def _begin(self, job: JobRow, folder: Path) -> LocalJob | PoolJob:
        if not work_pool.asked():
            return LocalJob(folder)
        if job.remote is not None:
            return PoolJob(job.remote)
        work = PoolJob.begin(folder)
        self._store.note_remote(job.id, work.run)
        return work

    def _watch(self, one: _Running) -> None:
        job, folder = one.job.id, self._root / job_files.JOBS / one.job.id
        code = one.work.poll()
        row = self._store.get(job)
        if code is not None:
            if isinstance(one.work, LocalJob):
                one.work.end()
            del self._running[job]
            told = job_files.read_note(folder, job_files.PROBLEM)
            if code == 0:
                self._store.finish(job, "done")
            elif row is not None and row.cancelled:
                shutil.rmtree(folder, ignore_errors=True)
                self._store.finish(job, "cancelled")
            else:
                why = "The job's process was ended from outside, for want of memory perhaps."
                if not isinstance(one.work, LocalJob):
                    why = f"Flow run {one.work.run} failed on its worker; the run's log in Prefect says why."
                ended = Problem(500, why)
                self._store.finish(job, "failed", told or ended.content)
            log.info("job %s: ended with %d", job, code)
            return
        if row is None or row.cancelled:
            self._end(one)
            shutil.rmtree(folder, ignore_errors=True)  # first: one who reads "cancelled" finds nothing left
            self._store.finish(job, "cancelled")
            return
        limits = self._limits
        if time.monotonic() - one.began > 60 * limits.job_minutes:
            self._refuse(one, f"The job took longer than {limits.job_minutes:g} minutes. Give a smaller area.")
        elif isinstance(one.work, LocalJob) and one.work.memory_mb() > limits.job_memory_mb:
            self._refuse(one, f"The job needed more than {limits.job_memory_mb} MB of memory. Give a smaller area.")

    def _refuse(self, one: _Running, why: str) -> None:
        self._end(one)
        self._store.finish(one.job.id, "failed", Problem(422, why).content)

    def _end(self, one: _Running) -> None:
        one.work.end()
        del self._running[one.job.id]

    def _sweep(self) -> None:
        again, given_up = self._store.recover()
        for job in given_up:
            why = "The service ended several times while it did this job; it is not tried again."
            self._store.finish(job, "failed", Problem(500, why).content)
        if again:
            log.info("jobs: %d go on whose service had ended", len(again))
        for job in self._store.remove_ended(time.time() - 3600 * self._limits.keep_hours):
            shutil.rmtree(self._root / job_files.JOBS / job, ignore_errors=True)
        job_files.sweep(self._root, self._store.names())
