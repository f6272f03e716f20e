"""Run one command: pass its output on line by line, and end all its processes with this one."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil  # type: ignore[import-untyped]

SECONDS_TO_END = 10.0
PR_SET_PDEATHSIG = 1
# Loaded here, because a freshly forked child should do nothing but the call itself.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class TookTooLongError(Exception):
    """A command was still at work at its limit, and was ended."""


def run(
    command: Sequence[str],
    say: Callable[[str], None],
    *,
    limit_s: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run `command`, pass on each output line at once, return its exit status (negative:
    the signal).

    The command gets a process group of its own. The group ends with the command, also where
    the command is killed and leaves children behind; at the limit; with any exception here
    (a cancelled flow, Ctrl-C); and, on Linux, with this process, whatever kills it.

    Args:
        command: program and arguments.
        say: is told each line.
        limit_s: seconds after which the command and all its children are ended. A limit of
            Prefect's would end the flow and leave them at work.
        environment: variables besides those of this process.

    Raises:
        TookTooLongError: it was still at work at the limit.
    """
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=variables(environment),
        process_group=0,
        preexec_fn=die_with_parent,
    )
    watcher = threading.Thread(target=_end_group_after, args=(process.pid,), daemon=True)
    watcher.start()
    too_long = threading.Event()
    if limit_s is not None:
        threading.Thread(
            target=_end_at, args=(limit_s, process.pid, watcher, too_long), daemon=True
        ).start()
    try:
        for line in process.stdout or ():
            say(line.rstrip())
    except BaseException:
        if watcher.is_alive():  # else the number may have gone to another by now
            _end_group(process.pid, watcher)
        raise
    finally:
        watcher.join()
        code = process.wait()
    if too_long.is_set():
        raise TookTooLongError(f"not finished after {limit_s:g} s, and ended")
    return code


def path_to_flows() -> dict[str, str]:
    """Return the variable with which a module of the flows is found from the folder of any
    family."""
    folder = str(Path(__file__).resolve().parents[2])
    return {"PYTHONPATH": os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])}


def variables(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a command's environment: this process's, `more`, and settings for unbuffered
    output."""
    return {
        **os.environ,
        **(more or {}),
        "PYTHONUNBUFFERED": "1",
        # `dvc` and `plumbline` of the environment that runs the flow, activated or not.
        "PATH": os.pathsep.join(
            [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        ),
    }


def die_with_parent() -> None:
    """Have the kernel kill this child when its parent dies (Linux); call it between fork
    and program."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_group_after(pid: int) -> None:
    """Wait for the leader without reaping it, so that its group's number cannot be reused
    meanwhile."""
    with contextlib.suppress(ChildProcessError, ProcessLookupError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        os.killpg(pid, signal.SIGKILL)


def _end_at(limit_s: float, pid: int, watcher: threading.Thread, too_long: threading.Event) -> None:
    watcher.join(limit_s)
    if watcher.is_alive():
        too_long.set()
        _end_group(pid, watcher)


def _end_group(pid: int, watcher: threading.Thread) -> None:
    """End the group, and the processes that its members started in other groups."""
    children: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        children = psutil.Process(pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGTERM)
        watcher.join(SECONDS_TO_END)
        if watcher.is_alive():
            os.killpg(pid, signal.SIGKILL)
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()  # a number that went to another process is noticed
