"""One run at a time, and no lock that outlives its owner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.versioning.checkout import RWLOCK, CheckoutBusyError, alone
from flows.versioning.stage_runner import reproduce
from tests.flows.conftest import ROOT, Project
from tests.waiting import until


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_owner(pid: int) -> None:
    """Leave the list of busy paths that a killed DVC leaves."""
    RWLOCK.parent.mkdir(parents=True, exist_ok=True)
    path = str(Path("data/simulate").resolve())
    RWLOCK.write_text(json.dumps({"write": {path: {"pid": pid, "cmd": "dvc repro"}}, "read": {}}))


def test_a_second_owner_is_told_of_the_first() -> None:
    with alone(), pytest.raises(CheckoutBusyError, match=f"process {os.getpid()}"), alone():
        pass
    with alone():
        pass


def test_a_second_pipeline_ends_with_2_and_names_the_first() -> None:
    command = [sys.executable, "-m", "flows.pipeline"]
    with alone():
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Another run (process {os.getpid()}) is at work" in done.stderr


# Tells whether it got the checkout, for itself and for what follows in it, and holds it until it is told to go on.
KEEPER = """
from flows.versioning.checkout import alone, keep
keep()
with alone():
    print("kept", flush=True)
print("still kept", flush=True)
input()
"""


def test_who_keeps_the_checkout_lets_in_its_own_and_nobody_else() -> None:
    keeper = subprocess.Popen(
        [sys.executable, "-c", KEEPER],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with keeper:
        assert keeper.stdout is not None
        assert [keeper.stdout.readline() for _ in range(2)] == ["kept\n", "still kept\n"]
        with pytest.raises(CheckoutBusyError, match=f"process {keeper.pid}"), alone():
            pass
        keeper.communicate("\n")
    with alone():
        pass


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("is_whole", [True, False])
def test_the_list_of_a_dead_dvc_blocks_nothing(project: Project, is_whole: bool) -> None:
    """Its process number went to another process, or the list was cut short."""
    write_owner(os.getppid())
    if not is_whole:
        RWLOCK.write_text('{"write": {"data')
    with alone():
        assert reproduce("simulate", str) == "ran"


@pytest.mark.parametrize("both", [True, False])
def test_a_living_dvc_is_respected(both: bool) -> None:
    """DVC leaves out the list of those who read, or write, where there are none."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)", "dvc"]) as dvc:
        write_owner(dvc.pid)
        if not both:
            RWLOCK.write_text(json.dumps({"write": json.loads(RWLOCK.read_text())["write"]}))
        started = Path(f"/proc/{dvc.pid}/cmdline").read_bytes  # empty for a moment while a program is started
        until(started, "the command line of a process", needs=dvc)
        with alone():
            assert RWLOCK.exists()
        dvc.kill()
