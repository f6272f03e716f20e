"""Portions of work: done once, in any number of processes, and none outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from plumbline.core import jobs
from plumbline.core.errors import InputError, NotWritable, PlumblineError
from plumbline.core.files import atomic_folder
from plumbline.core.jobs import ONE_THREAD, WORK, alone, in_threads, one_blas_thread, run_jobs, work_folder
from tests.first import as_first
from tests.refusals import refuses
from tests.waiting import until, until_gone


@dataclass(frozen=True)
class Portion:
    folder: Path
    seconds: float = 0.0
    bad: bool = False


def write(portion: Portion) -> None:
    with atomic_folder(portion.folder) as out:
        (out / "pid").write_text(str(os.getpid()))
        (out / "threads").write_text(os.environ.get("OPENBLAS_NUM_THREADS", ""))
        time.sleep(portion.seconds)
        if portion.bad:
            raise InputError(f"{portion.folder.name}: a bad cell")


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_there_is_not_done_again(tmp_path, workers, caplog, monkeypatch):
    for name in ONE_THREAD:
        monkeypatch.delenv(name, raising=False)
    portions = [Portion(tmp_path / f"p{number}") for number in range(4)]
    portions[1].folder.mkdir()
    with caplog.at_level("INFO", "plumbline"):
        run_jobs(write, portions, workers, "work")
    assert "work: going on, 1 of 4 portions are there from before" in caplog.text
    assert not list(portions[1].folder.iterdir())
    pids = {int((portions[number].folder / "pid").read_text()) for number in (0, 2, 3)}
    assert (pids == {os.getpid()}) == (workers == 1)
    if workers == 2:
        assert (portions[0].folder / "threads").read_text() == "1"
    assert "OPENBLAS_NUM_THREADS" not in os.environ
    run_jobs(write, portions, workers, "work")  # nothing is left, and no process is started for it


@pytest.mark.parametrize("workers", [1, 2])
def test_bad_input_ends_the_work_and_leaves_what_is_whole(tmp_path, workers):
    portions = [Portion(tmp_path / "good"), Portion(tmp_path / "bad", bad=True)]
    portions += [Portion(tmp_path / f"later{number}", 0.2) for number in range(8)]
    with pytest.raises(InputError, match="bad: a bad cell"):
        run_jobs(write, portions, workers, "work")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert "good" in left
    assert not [name for name in left if "bad" in name or name.startswith(".")]
    assert len(left) < 10


def be_killed(portion: Portion) -> None:
    """End as where the kernel is short of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_is_told_of_with_what_to_do(tmp_path):
    with refuses("worker.ended", "memory", "fewer workers", error=PlumblineError) as refusal:
        run_jobs(be_killed, [Portion(tmp_path / name) for name in "ab"], 2, "work")
    assert not isinstance(refusal.value, InputError)  # no delivery is to blame


def test_another_file_setting_or_code_is_another_run(tmp_path):
    file, code = tmp_path / "a.csv", tmp_path / "code"
    file.write_text("x")
    code.mkdir()
    (code / "m.py").write_text("1")
    folders = [work_folder("s", [file], {"a": 1}, [code]), work_folder("s", [file], {"a": 2}, [code])]
    (code / "m.py").write_text("2")
    folders.append(work_folder("s", [file], {"a": 1}, [code]))
    file.write_text("xy")
    folders.append(work_folder("s", [file], {"a": 1}, [code]))
    assert len(set(folders)) == 4
    assert work_folder("s", [file], {"a": 1}, [code]) == folders[-1]


PARENT = """
import sys
from pathlib import Path
from plumbline.core.jobs import ONE_THREAD, run_jobs
from tests.core.test_jobs import Portion, write
if __name__ == "__main__":
    run_jobs(write, [Portion(Path(sys.argv[1]) / name, float(sys.argv[2])) for name in "ab"], 2, "work")
"""
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(part).resolve()) for part in ("src", "."))}


@pytest.mark.skipif(sys.platform != "linux", reason="needs PR_SET_PDEATHSIG")
@pytest.mark.parametrize("taken", [WORK, WORK / "ingest.lock"], ids=str)
def test_a_place_where_nothing_can_be_kept_is_named(tmp_path, monkeypatch, taken):
    monkeypatch.chdir(tmp_path)
    if taken == WORK:
        taken.write_text("a file")
    else:
        taken.mkdir(parents=True)
    with refuses("work.not_writable", ".plumbline: ", error=NotWritable), alone("ingest"):
        raise AssertionError("it was entered")


def test_nothing_empty_is_left_and_what_was_cut_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with alone("restore"):
        assert (WORK / "restore.lock").exists()
        (WORK / "restore").mkdir()
    assert not WORK.exists()
    with alone("restore"):
        (WORK / "restore" / "0123").mkdir(parents=True)
    assert sorted(path.name for path in WORK.iterdir()) == ["restore"]
    assert (WORK / "restore" / "0123").exists()


TAKE = """
import os, time
from plumbline.core.jobs import alone
for _ in range(60):
    with alone("restore", patience_seconds=3600):
        os.close(os.open("inside", os.O_CREAT | os.O_EXCL))
        time.sleep(0.001)
        os.unlink("inside")
"""


def test_a_lock_file_that_goes_lets_one_in_at_a_time(tmp_path):
    """Several processes open the file, of which each holder removes the one that stands there."""
    waiting = "import plumbline.core.jobs as j; j.time.sleep = lambda s, sleep=j.time.sleep: sleep(min(s, 0.002))\n"
    processes = [
        subprocess.Popen([sys.executable, "-c", waiting + TAKE], cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    said = [one.communicate()[1].decode() for one in processes]
    assert said == [""] * 4
    assert list(tmp_path.rglob("*")) == []


def test_workers_die_with_the_process_that_started_them(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, str(script), str(tmp_path), "3600"], env=ENVIRONMENT)

    def at_work() -> set[int]:
        return {int(text) for path in tmp_path.glob(".*.part/pid") if (text := path.read_text())}

    until(lambda: len(at_work()) == 2, "two workers", needs=parent, found=at_work)
    pids = at_work()
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    until_gone(*pids)
    assert not (tmp_path / "a").exists()


def test_workers_of_the_first_process_of_a_container_go_on(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    command = as_first(sys.executable, str(script), str(tmp_path), "0")
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"parent.py", "a", "b"}


@pytest.mark.skipif(sys.platform != "linux", reason="needs PR_SET_PDEATHSIG")
@pytest.mark.parametrize(("expected", "there"), [("os.getppid()", True), ("os.getpid()", False), ("None", True)])
def test_a_parent_is_known_by_its_number(expected, there):
    asked = f"import os; from plumbline.core.jobs import die_with_parent; print(die_with_parent({expected}))"
    done = subprocess.run([sys.executable, "-c", asked], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout == f"{there}\n"


@pytest.mark.parametrize("asked", ["1", "3"])
def test_results_of_threads_stand_in_the_order_of_the_items_and_few_items_wait(monkeypatch, asked):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    made, done, most = [], [], []

    def items():
        for number in range(20):
            made.append(number)
            most.append(len(made) - len(done))
            yield number

    def work(number: int) -> tuple[int, bool]:
        time.sleep(0.002 * (number % 3))
        done.append(number)
        return number, threading.current_thread() is threading.main_thread()

    found = list(in_threads(work, items()))
    assert found == [(number, asked == "1") for number in range(20)]
    assert max(most) <= (2 if asked == "1" else 2 * int(asked) + 2)
    assert list(in_threads(work, [])) == []
    assert list(in_threads(work, [5])) == [(5, True)]
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda number: 1 / (number - 23) and made.append(number), range(20, 1000)))
    assert len(made) < 50


def test_openblas_has_one_thread_within_the_block_and_as_many_as_before_after_it():
    np.linalg.inv(np.eye(3))
    if not jobs._blas().info():
        pytest.skip("NumPy here has no OpenBLAS that can be found")

    def now() -> set[int]:
        return {library["num_threads"] for library in jobs._blas().info()}

    with jobs._blas().limit(limits=2):
        with one_blas_thread():
            with one_blas_thread():
                assert now() == {1}
            assert now() == {1}
        assert now() == {2}
