"""A command is heard while it runs, and nothing of it outlives the one who started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from flows.versioning.process import TookTooLongError, run
from tests.flows.conftest import ROOT, wait_until_gone

# Starts a child that sleeps, tells its number, then does what the argument says.
PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
os.kill(os.getpid(), 9) if sys.argv[1] == "die" else time.sleep(60)
"""


def test_lines_arrive_as_they_are_written() -> None:
    heard: list[tuple[str, float]] = []
    script = "import sys, time; print('one'); time.sleep(1); print('two', file=sys.stderr); sys.exit(5)"
    code = run([sys.executable, "-c", script], lambda line: heard.append((line, time.monotonic())))
    assert code == 5
    assert [line for line, _ in heard] == ["one", "two"]
    assert heard[1][1] - heard[0][1] > 0.5


def test_children_of_a_killed_command_end_with_it() -> None:
    heard: list[str] = []
    assert run([sys.executable, "-c", PARENT, "die"], heard.append) == -signal.SIGKILL
    wait_until_gone(int(heard[0]))


def test_an_interrupted_run_ends_the_whole_group() -> None:
    heard: list[str] = []

    def interrupt(line: str) -> None:
        heard.append(line)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([sys.executable, "-c", PARENT, "sleep"], interrupt)
    wait_until_gone(int(heard[0]))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends orphans on Linux only")
def test_a_command_dies_with_the_process_that_started_it() -> None:
    starter = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from flows.versioning.process import run; run(['sh', '-c', 'echo $$; exec sleep 60'], print)",
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with starter:
        pid = int(starter.stdout.readline()) if starter.stdout else 0
        starter.kill()
    wait_until_gone(pid)


# A child in a session of its own, and a parent that does not mind being asked to end.
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print(os.getpid(), child.pid, flush=True)
time.sleep(60)
"""


def test_a_command_and_its_children_are_ended_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.versioning.process.SECONDS_TO_END", 0.5)
    heard: list[str] = []
    begin = time.monotonic()
    with pytest.raises(TookTooLongError, match="not finished after 2 s"):
        run([sys.executable, "-c", STUBBORN], heard.append, limit_s=2)
    assert time.monotonic() - begin < 20
    for pid in map(int, heard[0].split()):
        wait_until_gone(pid)


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    assert run([sys.executable, "-c", "raise SystemExit(4)"], str, limit_s=60) == 4
