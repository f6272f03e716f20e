"""A Dask cluster of processes, as docs/operations/cluster.md starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from distributed import Client

from plumbline.core.jobs import ONE_THREAD
from tests.ports import free_port
from tests.waiting import Process, until, until_gone

ROOT = Path(__file__).parents[3]


class Cluster:
    """A scheduler, and workers that are processes of their own in one folder."""

    def __init__(self, folder: Path, processes: ExitStack) -> None:
        self._folder, self._processes = folder, processes
        self._pids: dict[str, int] = {}
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self._start("scheduler", "--host", self.address)
        self.client = processes.enter_context(Client(self.address, timeout=600))

    def add_worker(self) -> int:
        """Start a worker as docs/operations/cluster.md does, and wait for it; return its process number."""
        name = f"worker-{len(self._pids)}"
        words = ["worker", self.address, "--name", name, "--nthreads", "1", "--host", "127.0.0.1", "--no-nanny"]
        worker = self._start(*words)
        self._pids[name] = worker.pid
        until(lambda: worker.pid in self.workers().values(), "the worker", needs=worker)
        return worker.pid

    def workers(self) -> dict[str, int]:
        """Return the address of each worker, and its process number."""
        return {
            address: self._pids[about["name"]]
            for address, about in self.client.scheduler_info(n_workers=-1)["workers"].items()
        }

    def kill_at_work(self, needs: Process | None, log: Path | None) -> int:
        """Kill the first worker that is in the middle of a portion; return the number of portions that it had.

        Args:
            needs: process of the run whose portions they are; None: this one.
            log: file of what it prints.
        """

        def stopped() -> tuple[int, int] | None:
            for address, pid in self.workers().items():
                if self.client.processing([address])[address]:
                    os.kill(pid, signal.SIGSTOP)  # now it finishes nothing while it is looked at
                    if count := len(self.client.processing([address])[address]):
                        return pid, count
                    os.kill(pid, signal.SIGCONT)
            return None

        pid, count = until(stopped, "a worker with a portion", needs=needs, found=log)
        os.kill(pid, signal.SIGKILL)
        until_gone(pid)
        until(lambda: pid not in self.workers().values(), "the scheduler's knowledge of its end")
        return count

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        return self._processes.enter_context(
            running(
                [sys.executable, "-m", "dask", *words, "--dashboard-address", "127.0.0.1:0"],
                cwd=self._folder,
                env={**os.environ, **dict.fromkeys(ONE_THREAD, "1"), "PYTHONPATH": str(ROOT)},
            )
        )


@contextmanager
def running(command: list[str], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process; kill it at the end of the block."""
    with subprocess.Popen(command, **options) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def cluster_in(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Start a scheduler and workers in a folder, for the block."""
    with ExitStack() as processes:
        cluster = Cluster(folder, processes)
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
