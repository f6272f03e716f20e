"""Locks and leftovers of processes that were really there and died."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from plumbline.core.files import atomic_folder
from plumbline.doctor.machine import check_leftovers, check_locks
from plumbline.doctor.probes import State
from tests.doctor.conftest import PLACE, faults, states, told, warnings
from tests.waiting import until

# Takes the lock as a run does, and (`fork`) leaves it to a child that outlives it.
HOLD = """
import fcntl, os, sys, time
stream = open(".plumbline/run.lock", "a+")
fcntl.flock(stream, fcntl.LOCK_EX)
stream.write(str(os.getpid())); stream.flush()
child = os.fork() if sys.argv[1] == "fork" else os.getpid()
if child:
    print(child, flush=True)
if child not in (0, os.getpid()):
    os._exit(0)
time.sleep(3600)
"""


def hold(how: str) -> tuple[subprocess.Popen[str], int]:
    Path(".plumbline").mkdir(exist_ok=True)
    process = subprocess.Popen([sys.executable, "-c", HOLD, how], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_nobody_at_work(folder: Path) -> None:
    assert states(check_locks) == states(check_leftovers) == [State.OK]


def test_a_run_at_work_and_one_that_was_killed(folder: Path) -> None:
    process, pid = hold("stay")
    assert f"a run is at work here: .plumbline/run.lock, process {pid}" in told(check_locks, State.OK, PLACE)
    process.kill()
    process.communicate()
    assert "nobody is at work" in told(check_locks, State.OK, PLACE)


def test_a_lock_that_a_dead_run_left_to_its_child(folder: Path) -> None:
    process, child = hold("fork")
    try:
        process.wait()
        assert f"held by process {child}, left by process {process.pid}, which is dead" in faults(check_locks)
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()
    until(lambda: faults(check_locks) == "", "the end of the child's lock", found=lambda: faults(check_locks))
    assert states(check_locks) == [State.OK]


def test_a_tidying_that_died_left_its_lock_to_its_child(folder: Path) -> None:
    process, child = hold("fork")
    try:
        process.wait()
        Path(".plumbline/run.lock").write_text(f"{process.pid} tidying")
        assert f"left by process {process.pid}, which is dead" in faults(check_locks)
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()


def owners(pid: int) -> None:
    path = Path(".dvc/tmp/rwlock")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"write": {"data/train": {"pid": pid, "cmd": "dvc repro"}}, "read": {}}))


def test_dvcs_list_of_busy_paths(folder: Path) -> None:
    owners(dead_pid())  # DVC takes it off by itself
    assert states(check_locks) == [State.OK]
    owners(os.getpid())  # a number that has gone to a process that is no DVC
    assert "DVC waits for it without end" in faults(check_locks)
    with subprocess.Popen([sys.executable, "-c", "input()", "/srv/dvc-cache/x"], stdin=subprocess.PIPE) as other:
        owners(other.pid)
        assert "DVC waits for it without end" in faults(check_locks)
        other.communicate(b"\n")
    Path(".dvc/tmp/rwlock").write_text('{"write": {"data')
    assert "was cut short" in faults(check_locks)
    for left in ("{}", '{"write": {}}', '{"read": {}}'):  # as DVC leaves it
        Path(".dvc/tmp/rwlock").write_text(left)
        assert states(check_locks) == [State.OK]


def test_a_half_written_output_of_a_killed_process(folder: Path) -> None:
    code = (
        "import os, signal; from pathlib import Path; from plumbline.core.files import atomic_folder\n"
        "with atomic_folder(Path('data/train')) as folder:\n"
        "    (folder / 'big').write_bytes(bytes(5000)); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert "half-written, of processes that died: data/.train." in warnings(check_leftovers)
    with atomic_folder(Path("data/prepare")):  # of this process, which is at it
        assert "prepare" not in warnings(check_leftovers)


def test_the_only_copy_of_a_folder_is_put_back_and_not_removed(folder: Path) -> None:
    """Killed between two renames: the old folder is aside, the new one not yet in its place."""
    code = (
        "import os, signal; from pathlib import Path; from plumbline.core import files\n"
        "with files.atomic_folder(Path('data/train')) as one: (one / 'old').touch()\n"
        "moved = os.replace\n"
        "def replace(*paths):\n"
        "    moved(*paths); os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.os.replace = replace\n"
        "with files.atomic_folder(Path('data/train')) as two: (two / 'new').touch()"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    found = [finding for finding in check_leftovers(PLACE) if "all there is of data/train" in finding.found]
    assert len(found) == 1
    assert "rm -r" not in found[0].mend
    assert subprocess.run(found[0].mend.split("`")[1], shell=True, check=True).returncode == 0
    assert Path("data/train/old").is_file()
    assert "all there is" not in warnings(check_leftovers)


def test_what_is_to_be_removed_is_quoted(folder: Path) -> None:
    Path(f"data/.Old Town.{dead_pid()}.part").mkdir(parents=True)
    (finding,) = check_leftovers(PLACE)
    command = finding.mend.split("`")[1]
    assert subprocess.run(command, shell=True, check=True).returncode == 0
    assert states(check_leftovers) == [State.OK]


def test_what_a_system_keeps_is_never_named_for_removal(folder: Path) -> None:
    """Prefect's database, files of MLflow and of the champion: a system that stood still for a week needs them all."""
    for name in (
        "system/prefect/prefect.db",
        "mlruns/1/record.json",
        "models/0123/model.onnx",
        "lent/athens/params.yaml",
    ):
        path = Path(".plumbline") / name
        path.parent.mkdir(parents=True)
        path.touch()
        for old in (path, path.parent):
            os.utime(old, (time.time() - 8 * 86_400,) * 2)
    assert states(check_leftovers) == [State.OK]
