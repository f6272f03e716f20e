"""Run one command so that its output is seen line by line and nothing of it outlives this process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

SECONDS_TO_END = 10.0
PR_SET_PDEATHSIG = 1
# Loaded here, because a freshly forked child should do nothing but the call itself.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def run(command: Sequence[str], say: Callable[[str], None]) -> int:
    """Run `command`, pass each line it writes to `say` at once, return its exit status (negative: the signal).

    The command gets a process group of its own. The group ends with the command, also where the command is
    killed and leaves children behind; with any exception here (a cancelled flow, Ctrl-C); and, on Linux, with
    this process, whatever kills it.
    """
    environment = os.environ | {
        "PYTHONUNBUFFERED": "1",
        # `dvc` and `plumbline` of the environment that runs the flow, activated or not.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
    }
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=environment,
        process_group=0,
        preexec_fn=_die_with_parent,
    )
    watcher = threading.Thread(target=_end_group_after, args=(process.pid,), daemon=True)
    watcher.start()
    try:
        for line in process.stdout or ():
            say(line.rstrip())
    except BaseException:
        _end_group(process.pid, watcher)
        raise
    finally:
        watcher.join()
        code = process.wait()
    return code


def _die_with_parent() -> None:
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_group_after(pid: int) -> None:
    """Wait for the leader without reaping it, so that its group's number cannot have gone to another by then."""
    with contextlib.suppress(ChildProcessError, ProcessLookupError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        os.killpg(pid, signal.SIGKILL)


def _end_group(pid: int, watcher: threading.Thread) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGTERM)
        watcher.join(SECONDS_TO_END)
        if watcher.is_alive():
            os.killpg(pid, signal.SIGKILL)
