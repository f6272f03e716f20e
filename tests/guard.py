"""End what tests have started when their run is killed, which then cannot do so itself.

A run marks its environment, which all processes that it starts inherit, and theirs too. A process beside the run
watches it. Once the run has ended without a word, it was killed, and the process kills all that has the mark. Linux
alone tells the environment of others.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

MARK = "PLUMBLINE_TESTS"
FAREWELL = b"."
_guards: list[subprocess.Popen[bytes]] = []


def begin() -> None:
    """Mark this process's environment, and start the guard."""
    os.environ[MARK] = f"{os.getpid()}-{time.time_ns()}"
    # In a session of its own: what kills a run may kill its group, or close its terminal.
    command = [sys.executable, "-I", "-S", __file__, str(os.getpid())]
    _guards.append(subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True))


def end() -> None:
    """Dismiss the guard: this run ends by itself, with its fixtures."""
    while _guards:
        _guards.pop().communicate(FAREWELL)


def marked(mark: str) -> list[int]:
    """Return the numbers of the processes that were started with this mark, without this one."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (place / "environ").read_bytes().split(b"\0") and int(place.name) != os.getpid():
                found.append(int(place.name))
    return found


def main() -> None:
    """Wait for the end of the run; kill what a killed one has left."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    with suppress(ProcessLookupError):
        # The pipe's other end may be held by forks of the run, so its end alone would not tell that of the run.
        run = os.pidfd_open(int(sys.argv[1]))
        select.select([run, 0], [], [])
    if select.select([0], [], [], 0)[0] and os.read(0, 1) == FAREWELL:
        return
    while left := marked(os.environ[MARK]):  # again and again: one may start another meanwhile
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


if __name__ == "__main__":
    main()
