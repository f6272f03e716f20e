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
import sqlite3, sys, threading, time, weakref

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


def said(folder: Path, patience_s: float, *module: str) -> list[str]:
    (folder / "program.py").write_text(PROGRAM)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
    done = subprocess.run(
        [sys.executable, "-m", *module, "program", str(patience_s)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_waiting_connection_keeps_nobody_who_holds_the_lock(tmp_path: Path) -> None:
    assert said(tmp_path, 3600.0, "flows.orchestration.gc_thread") == ["has the lock", "freed"]


@pytest.mark.slow
def test_without_it_python_itself_would(tmp_path: Path) -> None:
    """Where this fails, `flows.orchestration.gc_thread` may go: Python no longer waits there."""
    assert said(tmp_path, 2.0) == ["gave up", "freed"]


def test_a_module_finds_its_own_name_and_arguments(tmp_path: Path) -> None:
    asked = "import gc, sys; print(gc.isenabled(), sys.argv[0][-8:], sys.argv[1:], __name__)"
    (tmp_path / "asked.py").write_text(asked)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    command = [sys.executable, "-m", "flows.orchestration.gc_thread", "asked", "one", "--two"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False asked.py ['one', '--two'] __main__"
