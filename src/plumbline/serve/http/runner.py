"""Run the jobs of the list, each in a process group of its own, and end those that take too much."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from plumbline.core.console import log
from plumbline.core.files import write_json
from plumbline.serve.http import job_files
from plumbline.serve.http.job_store import JobRow, JobStore
from plumbline.serve.http.models import Models
from plumbline.serve.http.problems import Problem, problem_of
from plumbline.serve.http.settings import Limits

SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_BETWEEN_SWEEPS = 30.0
PROGRAM = "plumbline.serve.http.job_process"


@dataclass
class _Running:
    job: JobRow
    process: subprocess.Popen[bytes]
    began: float = field(default_factory=time.monotonic)


class Runner(threading.Thread):
    """A thread that lives as long as the service: its jobs' processes end with it, however it ends."""

    def __init__(self, root: Path, store: JobStore, models: Models, limits: Limits) -> None:
        super().__init__(name="runner", daemon=True)
        self._root, self._store, self._models, self._limits = root, store, models, limits
        self._running: dict[str, _Running] = {}
        self._ended = threading.Event()
        self._swept = -SECONDS_BETWEEN_SWEEPS

    def run(self) -> None:
        """Look after jobs until `stop`."""
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
            _kill(one.process)
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
        }
        try:
            for stale in (job_files.PROBLEM, job_files.PROGRESS):
                (folder / stale).unlink(missing_ok=True)
            write_json(folder / job_files.TASK, task)
            with (folder / job_files.LOG).open("ab") as said:
                process = subprocess.Popen(
                    [sys.executable, "-m", PROGRAM, str(folder.resolve()), str(os.getpid())],
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except Exception as error:
            self._store.finish(job.id, "failed", problem_of(error).content)
            return
        self._running[job.id] = _Running(job, process)
        log.info("job %s: %s begins", job.id, job.kind)

    def _watch(self, one: _Running) -> None:
        job, folder = one.job.id, self._root / job_files.JOBS / one.job.id
        code = one.process.poll()
        row = self._store.get(job)
        if code is not None:
            _kill(one.process)  # what it may have left in its group
            del self._running[job]
            told = job_files.read_note(folder, job_files.PROBLEM)
            if code == 0:
                self._store.finish(job, "done")
            elif row is not None and row.cancelled:
                self._store.finish(job, "cancelled")
            else:
                ended = Problem(500, "The job's process was ended from outside, for want of memory perhaps.")
                self._store.finish(job, "failed", told or ended.content)
            log.info("job %s: ended with %d", job, code)
            return
        if row is None or row.cancelled:
            self._end(one)
            self._store.finish(job, "cancelled")
            shutil.rmtree(folder, ignore_errors=True)
            return
        limits = self._limits
        if time.monotonic() - one.began > 60 * limits.job_minutes:
            self._refuse(one, f"The job took longer than {limits.job_minutes:g} minutes. Give a smaller area.")
        elif _memory_mb(one.process.pid) > limits.job_memory_mb:
            self._refuse(one, f"The job needed more than {limits.job_memory_mb} MB of memory. Give a smaller area.")

    def _refuse(self, one: _Running, why: str) -> None:
        self._end(one)
        self._store.finish(one.job.id, "failed", Problem(422, why).content)

    def _end(self, one: _Running) -> None:
        _kill(one.process)
        one.process.wait()
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


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and all of its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _memory_mb(number: int) -> float:
    """Return the resident memory of a process and of those that it began, MB."""
    total = 0
    try:
        whole = psutil.Process(number)
        for one in (whole, *whole.children(recursive=True)):
            total += one.memory_info().rss
    except psutil.Error:
        pass
    return total / 1e6
