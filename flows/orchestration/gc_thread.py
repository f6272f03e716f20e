"""Run a module as a program with the cycle collector in a separate thread: Prefect's
server, on SQLite.

`python -m flows.orchestration.gc_thread MODULE ARGUMENTS...`. Python collects in whatever
thread makes the next object. In that of the server's event loop it may meet a cursor that
nobody closed, of a connection on which another thread waits for SQLite's write lock. To
free the cursor, it waits for the mutex of that connection; and where the lock is held by a
transaction of the loop's own, that goes on when SQLite gives up waiting, 60 s later. Until
then the server does not answer. A thread beside it may wait there and stop nobody.
"""

from __future__ import annotations

import gc
import runpy
import sys
import threading
import time

YOUNG_S, ALL_S = 2.0, 60.0
"""Seconds between two collections of what is new, and of everything."""


def collect_apart() -> None:
    """Collect in a separate thread from now on, and nowhere else."""
    gc.disable()
    threading.Thread(target=_collect, name="collect", daemon=True).start()


def _collect() -> None:
    last = time.monotonic()
    while True:
        time.sleep(YOUNG_S)
        if time.monotonic() - last < ALL_S:
            gc.collect(1)
        else:
            gc.collect()
            last = time.monotonic()


if __name__ == "__main__":
    collect_apart()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
