import subprocess
import sys

import pytest

from plumbline.core import jobs as threads
from tests.waiting import until


@pytest.mark.parametrize(
    ("content", "busy"),
    [
        ("0.52 0.80 1.20 1/345 4711\n", False),  # this process
        ("0.52 0.80 1.20 2/345 4711\n", True),
        ("0.52 0.80 1.20 17/345 4711\n", True),
        ("0.1 0.2 0.3", False),
        ("a b c d/e f", False),
        (None, False),
    ],
)
def test_others_are_those_who_want_a_core_besides_this_process(tmp_path, content, busy):
    if content is not None:
        (tmp_path / "loadavg").write_text(content)
    assert threads.others_at_work(tmp_path / "loadavg") is busy


@pytest.mark.skipif(not threads.LOAD.exists(), reason="no /proc/loadavg here")
def test_a_busy_program_is_seen():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            until(threads.others_at_work, "a sign of the busy program", needs=busy)
            environment = {}
            threads.set_spinning(environment)
            assert environment == {"GOMP_SPINCOUNT": str(threads.BESIDE)}
        finally:
            busy.kill()


@pytest.mark.parametrize(("busy", "rounds"), [(True, threads.BESIDE), (False, threads.ALONE)])
def test_threads_spin_long_only_alone(monkeypatch, busy, rounds):
    monkeypatch.setattr(threads, "others_at_work", lambda: busy)
    environment = {"PATH": "/bin"}
    threads.set_spinning(environment)
    assert environment == {"PATH": "/bin", "GOMP_SPINCOUNT": str(rounds)}


@pytest.mark.parametrize("given", [{"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "PASSIVE"}, {"OMP_NUM_THREADS": "1"}])
def test_what_the_user_has_set_stays(given):
    environment = dict(given)
    threads.set_spinning(environment)
    assert environment == given
