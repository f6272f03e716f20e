"""A command is heard while it runs, and nothing of it outlives the one who started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.versioning import process
from flows.versioning.process import TookTooLongError, run
from tests.flows.conftest import ROOT
from tests.waiting import until_gone

# Starts a child that sleeps, tells its number, then does what the argument says.
PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
print(child.pid, flush=True)
os.kill(os.getpid(), 9) if sys.argv[1] == "die" else time.sleep(3600)
"""


# Says a word, waits for a file, and says another.
WORDS = """
import pathlib, sys, time
print("one")
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
print("two", file=sys.stderr)
sys.exit(5)
"""


def test_lines_arrive_as_they_are_written(tmp_path: Path) -> None:
    heard: list[str] = []

    def hear(line: str) -> None:
        heard.append(line)
        (tmp_path / "heard").touch()  # the second word comes only if the first has come before

    assert run([sys.executable, "-c", WORDS, str(tmp_path / "heard")], hear) == 5
    assert heard == ["one", "two"]


def test_children_of_a_killed_command_end_with_it() -> None:
    heard: list[str] = []
    assert run([sys.executable, "-c", PARENT, "die"], heard.append) == -signal.SIGKILL
    until_gone(int(heard[0]))


def test_an_interrupted_run_ends_the_whole_group() -> None:
    heard: list[str] = []

    def interrupt(line: str) -> None:
        heard.append(line)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([sys.executable, "-c", PARENT, "sleep"], interrupt)
    until_gone(int(heard[0]))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends orphans on Linux only")
def test_a_command_dies_with_the_process_that_started_it() -> None:
    starter = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from flows.versioning.process import run; run(['sh', '-c', 'echo $$; exec sleep 3600'], print)",
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with starter:
        pid = int(starter.stdout.readline()) if starter.stdout else 0
        starter.kill()
    until_gone(pid)


# A child in a session of its own, and a parent that does not mind being asked to end.
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
print(os.getpid(), child.pid, flush=True)
time.sleep(3600)
"""


def over_with_a_line(monkeypatch: pytest.MonkeyPatch, begin: str, heard: list[str]) -> Callable[[str], None]:
    """Let limits be over with the first line that begins so; what hears the lines, and keeps them."""
    said, end_at = threading.Event(), process._end_at

    def then(limit_s: float, *command: Any) -> None:
        said.wait()
        end_at(0.1, *command)

    def say(line: str) -> None:
        heard.append(line)
        if line.startswith(begin):
            said.set()

    monkeypatch.setattr(process, "_end_at", then)
    return say


def test_a_command_and_its_children_are_ended_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.versioning.process.SECONDS_TO_END", 0.5)
    heard: list[str] = []
    say = over_with_a_line(monkeypatch, "", heard)
    with pytest.raises(TookTooLongError, match="not finished after 600 s"):
        run([sys.executable, "-c", STUBBORN], say, limit_s=600)
    until_gone(*map(int, heard[0].split()))


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    assert run([sys.executable, "-c", "raise SystemExit(4)"], str, limit_s=3600) == 4
