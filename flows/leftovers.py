"""The embedded Prefect server of a run that was killed: nobody else would ever end it."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

RECORD = Path(".plumbline/server.pid")


def remember_server() -> None:
    """Note the servers this process has started; Prefect keeps their numbers to itself."""
    listed = " ".join(path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(" ".join(pid for pid in listed.split() if _is_server(int(pid))), encoding="utf-8")


def end_leftover_server() -> None:
    """End what the last run noted, if it is still there. To be called by the owner of the checkout only."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        for pid in map(int, RECORD.read_text(encoding="utf-8").split()):
            if _is_server(pid):
                os.kill(pid, signal.SIGTERM)
    RECORD.unlink(missing_ok=True)


def _is_server(pid: int) -> bool:
    """A number alone proves nothing: it may have gone to another process since."""
    try:
        here = Path(f"/proc/{pid}/cwd").readlink() == Path.cwd()
        return here and b"prefect.server" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
