"""Forks of one process that has loaded DVC: each behaves as `python -m dvc` would, and none finds what another left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from flows.versioning import dvc_process
from flows.versioning.checkout import _is_dvc
from flows.versioning.process import TookTooLongError, run
from tests.flows.conftest import IDENTITY, Project, stage_process
from tests.flows.versioning.test_process import over_with_a_line
from tests.waiting import until_gone

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="where the kernel tells nobody, DVC is loaded anew")
# Says what it finds, and stays.
LOOK = """
import os, subprocess, sys, time
print(os.environ.get("OWN"), os.getpid(), flush=True)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
print("child", child.pid, flush=True)
time.sleep(float(sys.argv[1]))
child.kill()
"""


def make(folder: Path) -> None:
    """A project of DVC with the stages `quick` and `slow`."""
    subprocess.run(["git", *IDENTITY, "init", "--quiet"], cwd=folder, check=True)
    (folder / ".dvc").mkdir()
    (folder / ".dvc/config").touch()
    (folder / "look.py").write_text(LOOK)
    stages = {name: {"cmd": f"{sys.executable} look.py {s}"} for name, s in (("quick", 0), ("slow", 3600))}
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, a project of DVC."""
    monkeypatch.delenv("SHELL", raising=False)
    monkeypatch.setattr(dvc_process, "LOAD_S", 3600.0)  # however busy the machine is
    monkeypatch.chdir(tmp_path)
    make(tmp_path)
    return tmp_path


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The project, and no process that has loaded DVC yet; one that the test begins ends with it."""
    monkeypatch.setattr(dvc_process, "_kept", [])
    yield place
    for kept in filter(None, dvc_process._kept):
        kept._end()


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dvc_process._Ready | None]]:
    """One process for all tests that only have it forked: it takes two seconds to load."""
    folder = tmp_path_factory.mktemp("begun")
    make(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dvc_process, "_kept", [])
        with contextlib.chdir(folder):
            dvc_process.begin()
        kept = dvc_process._kept
    yield kept
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dvc_process, "_kept", kept)
        for one in filter(None, list(kept)):
            one._end()


@pytest.fixture
def shared(place: Path, begun: list[dvc_process._Ready | None], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project, and the process that other tests have forked too."""
    monkeypatch.setattr(dvc_process, "_kept", begun)
    return place


def loaded() -> int:
    (kept,) = dvc_process._kept
    assert kept is not None
    return kept._process.pid


def forked(lines: list[str]) -> int:
    """The process of the stage, of what it said."""
    return int(next(line for line in lines if line.startswith(("None ", "mine "))).split()[1])


def test_a_fork_says_and_ends_as_dvc_itself_does(shared: Path) -> None:
    for arguments in (["repro", "nothing"], ["status", "--json"], ["nonsense"]):
        told: list[list[str]] = [[], []]
        codes = [
            dvc_process.run("dvc", arguments, told[0].append),
            run([sys.executable, "-m", "dvc", *arguments], told[1].append),
        ]
        assert codes[0] == codes[1]
        assert told[0] == told[1]
    assert dvc_process._kept != [None]


def test_each_command_is_a_process_of_its_own_with_its_own_variables(shared: Path) -> None:
    said: list[list[str]] = []
    for environment in ({"OWN": "mine"}, None):
        said.append([])
        assert dvc_process.run("dvc", ["repro", "--force", "quick"], said[-1].append, environment=environment) == 0
        assert psutil.Process(loaded()).num_threads() == 1  # or a fork could find a lock that nobody opens
        assert psutil.Process(loaded()).children() == []
    assert [next(line[:4] for line in lines if " " in line and line[:4] in ("mine", "None")) for lines in said] == [
        "mine",
        "None",
    ]
    assert forked(said[0]) != forked(said[1])


def test_at_the_limit_the_stage_and_its_children_are_ended_and_the_next_command_is_forked(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    say = over_with_a_line(monkeypatch, "child", lines)
    dvc_process.begin()
    with pytest.raises(TookTooLongError, match="not finished after 600 s"):
        dvc_process.run("dvc", ["repro", "slow"], say, limit_s=600)
    until_gone(forked(lines), int(next(line for line in lines if line.startswith("child")).split()[1]))
    before = loaded()
    assert dvc_process.run("dvc", ["status"], str) in (0, 1)
    assert loaded() == before


def test_a_command_that_is_killed_says_by_which_signal(shared: Path) -> None:
    def kill(line: str) -> None:
        if line.startswith("child"):
            for child in psutil.Process(loaded()).children():
                child.kill()

    assert dvc_process.run("dvc", ["repro", "slow"], kill) == -signal.SIGKILL


def test_where_the_loaded_process_is_killed_its_command_ends_and_the_next_loads_dvc_anew(here: Path) -> None:
    lines: list[str] = []

    def kill(line: str) -> None:
        lines.append(line)
        if line.startswith("child"):
            os.kill(loaded(), signal.SIGKILL)

    assert dvc_process.run("dvc", ["repro", "slow"], kill) == -signal.SIGKILL
    assert dvc_process._kept == [None]
    until_gone(forked(lines))
    until_gone(int(next(line for line in lines if line.startswith("child")).split()[1]))
    assert dvc_process.run("dvc", ["repro", "quick"], str) == 0


def test_a_process_that_does_not_load_is_given_up(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dvc_process, "LOAD_S", 0.5)
    dvc_process.begin()
    os.kill(loaded(), signal.SIGSTOP)
    assert dvc_process.run("dvc", ["repro", "quick"], str) == 0
    assert dvc_process._kept == [None]


def test_an_interruption_while_dvc_loads_leaves_no_answer_to_the_next_command(here: Path) -> None:
    def alarm(*_: object) -> None:
        raise KeyboardInterrupt

    def interrupted() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        dvc_process.run("dvc", ["repro", "slow"], str)

    before = signal.signal(signal.SIGALRM, alarm)
    try:
        dvc_process.begin()
        os.kill(loaded(), signal.SIGSTOP)
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert dvc_process._kept == [None]
    lines: list[str] = []
    assert dvc_process.run("dvc", ["repro", "quick"], lines.append) == 0
    assert forked(lines)


def test_while_one_command_is_at_work_another_does_not_wait_for_it(shared: Path) -> None:
    begun = threading.Event()
    codes: list[int] = []

    def long() -> None:
        def say(line: str) -> None:
            if line.startswith("child"):
                begun.set()

        codes.append(dvc_process.run("dvc", ["repro", "slow"], say))

    thread = threading.Thread(target=long)
    thread.start()
    begun.wait()
    assert dvc_process.run("dvc", ["version"], str) == 0
    assert codes == []
    (command,) = psutil.Process(loaded()).children()
    command.kill()
    thread.join()
    assert codes == [-signal.SIGKILL]


def test_a_command_and_what_it_started_die_with_the_process_that_asked(project: Project) -> None:
    project.behave(simulate={"sleep": 3600})
    asking = "from flows.versioning import dvc_process as ready; ready.run('dvc', ['repro', 'simulate'], print)"
    starter = project.start("-c", asking)
    stage_process("simulate")
    found = psutil.Process(starter.pid).children(recursive=True)
    assert len(found) >= 3  # who has loaded DVC, its fork, the stage
    starter.kill()
    starter.communicate()
    until_gone(*(process.pid for process in found))


def test_the_loaded_process_is_known_for_dvc_by_its_command_line(shared: Path) -> None:
    assert dvc_process.run("dvc", ["status"], str) == 0  # until a program is started, its command line is empty
    assert _is_dvc(loaded())
