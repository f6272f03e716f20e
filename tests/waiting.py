"""Wait for a state. A clock ends only what hangs; how fast something is, `benchmarks` asks."""

from __future__ import annotations

import multiprocessing.process
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil

PATIENCE_S = 600.0
"""After this long a state will not come any more, however busy the machine."""
Answer = TypeVar("Answer")
Process = subprocess.Popen[Any] | multiprocessing.process.BaseProcess | int
"""One of this process's own, or the number of any."""


def until(
    condition: Callable[[], Answer],
    what: str,
    *,
    needs: Process | None = None,
    found: Callable[[], object] | Path | None = None,
    pause_s: float = 0.05,
) -> Answer:
    """Ask again and again; return the first answer that is not empty.

    Args:
        condition: what to ask.
        what: the state that is waited for, for the message.
        needs: process without which the state cannot come: its end is that of the wait.
        found: what there is in place of the state, for the message: a file, as a log, or a function.
        pause_s: seconds between two questions.

    Raises:
        AssertionError: the process has ended, or the state does not come.
    """
    end = time.monotonic() + PATIENCE_S
    while True:
        over = needs is not None and is_gone(needs)  # looked at first: what it did before its end counts
        if answer := condition():
            return answer
        if over or time.monotonic() > end:
            why = f"{_name(needs)} has ended" if needs is not None and over else f"not within {PATIENCE_S:.0f} s"
            raise AssertionError(f"{what} did not come: {why}{_told(found)}")
        time.sleep(pause_s)


def until_gone(*numbers: int) -> None:
    """Return once none of the processes with these numbers is at work."""
    for number in numbers:
        try:
            process = psutil.Process(number)
        except psutil.NoSuchProcess:
            continue
        _until_gone(process)


def is_gone(process: Process) -> bool:
    """Return whether a process has ended. One that nobody has asked for its exit status has."""
    if isinstance(process, subprocess.Popen):
        return process.poll() is not None
    if isinstance(process, multiprocessing.process.BaseProcess):
        return process.exitcode is not None
    try:
        return not _at_work(psutil.Process(process))
    except psutil.NoSuchProcess:
        return True


def _until_gone(process: psutil.Process) -> None:
    def said() -> str:
        with process.oneshot():
            return f"{process.status()}: {' '.join(process.cmdline())}"

    # A number that went to another process is noticed.
    until(lambda: not _at_work(process), f"the end of process {process.pid}", found=said)


def _at_work(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _name(process: Process) -> str:
    if isinstance(process, subprocess.Popen):
        return f"{process.args} with exit code {process.returncode}"
    if isinstance(process, multiprocessing.process.BaseProcess):
        return f"{process.name} with exit code {process.exitcode}"
    return f"process {process}"


def _told(found: Callable[[], object] | Path | None) -> str:
    if found is None:
        return ""
    if isinstance(found, Path):
        return f"\n{found.read_text(errors='replace') if found.exists() else f'no {found}'}"
    return f"\n{found()}"
