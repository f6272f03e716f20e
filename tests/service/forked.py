"""Jobs of a service in processes that come from one which has loaded the libraries: to load them takes 4 s a job."""

import multiprocessing
import multiprocessing.util
import os
import sys
from pathlib import Path
from typing import Any

from plumbline.service import job_store as job_files
from plumbline.service.runner import LocalJob

LOADED = (
    "plumbline.service.job_process",
    "plumbline.serve.map.document",
    "plumbline.serve.predict",
    "plumbline.fields.restore.restore",
)


def place() -> None:
    """Make multiprocessing's folder of sockets: later it would be made among the uploads of a service."""
    multiprocessing.util.get_temp_dir()


class ForkedJob(LocalJob):
    """A job in its own process group, as the runner starts one; only the start differs."""

    def __init__(self, folder: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*LOADED])
        self._own = context.Process(target=_do, args=(folder,), daemon=True)
        self._own.start()
        self._process = _Popen(self._own)  # type: ignore[assignment]

    def end(self) -> None:
        self._own.kill()  # it may have no group yet
        super().end()


class _Popen:
    """What the runner asks of a process."""

    def __init__(self, own: Any) -> None:
        self._own, self.pid = own, own.pid

    def poll(self) -> int | None:
        code: int | None = self._own.exitcode
        return code

    def wait(self) -> None:
        self._own.join()


def _do(folder: Path) -> None:
    os.setsid()
    said = os.open(folder / job_files.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(said, stream)
    from plumbline.service.job_process import main

    sys.exit(main(folder, os.getppid()))
