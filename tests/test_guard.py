"""A run that is killed leaves no process, and one that ends by itself is let alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import is_gone, until_gone

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells the environment of others")
ROOT = Path(__file__).parents[1]
# Starts a process in a session of its own that starts another, as a server does its workers; then waits for a word.
RUN = """
import subprocess, sys
from tests import guard
guard.begin()
child = "import subprocess; print(subprocess.Popen(['sleep', '3600'], stdout=subprocess.DEVNULL).pid, flush=True)"
daemon = [sys.executable, "-c", child + "; input()"]
started = subprocess.Popen(daemon, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(started.pid, int(started.stdout.readline()), flush=True)
sys.stdin.readline()
guard.end()
"""


@pytest.mark.parametrize("killed", [True, False])
def test_what_a_killed_run_started_is_ended(killed: bool) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", RUN],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    child, grandchild = map(int, run.stdout.readline().split())
    if killed:
        run.kill()
        run.wait()
        until_gone(child, grandchild)
    else:
        run.communicate("\n")
        assert not is_gone(grandchild)
        os.kill(grandchild, 9)
