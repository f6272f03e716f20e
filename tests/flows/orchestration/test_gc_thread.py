"""A server's event loop frees nobody's cursor: else it waits, for a minute, for a lock that it holds itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.conftest import ROOT

# One thread holds SQLite's write lock and makes objects. Another waits for the lock; of its connection there is a
# cursor that nobody closed, in a cycle.
PROGRAM = """
import gc, sqlite3, sys, threading, time, weakref
print(gc.isenabled(), sys.argv[1:], __name__)

class Cycle:
    pass

def connect():
    return sqlite3.connect("lock.db", isolation_level=None, timeout=float(sys.argv[1]), check_same_thread=False)

holder, waiter = connect(), connect()
holder.execute("PRAGMA journal_mode = WAL")
cycle = Cycle()
cycle.own, cycle.cursor = cycle, waiter.execute("PRAGMA foreign_keys")
seen = weakref.ref(cycle)
holder.execute("BEGIN IMMEDIATE")
# Called once SQLite has the connection's mutex, which it keeps until it has the lock or gives up.
begun = threading.Event()
waiter.set_trace_callback(lambda _: begun.set())

def wait():
    try:
        waiter.execute("BEGIN IMMEDIATE")
        print("has the lock")
    except sqlite3.OperationalError:  # what it says may be of another call by now
        print("gave up")

thread = threading.Thread(target=wait)
thread.start()
begun.wait()
del cycle
made = [[] for _ in range(100_000)]
holder.execute("COMMIT")
thread.join()
while seen() is not None:
    time.sleep(0.1)
print("freed")
"""


@pytest.mark.slow
def test_a_waiting_connection_keeps_nobody_who_holds_the_lock(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    command = [sys.executable, "-m", "flows.orchestration.gc_thread", "program", "3600"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False ['3600'] __main__", "has the lock", "freed"]
