"""A wait ends with what it waits for, or says why that does not come."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import waiting
from tests.ports import free_port
from tests.waiting import is_gone, until, until_gone


def test_the_answer_is_the_first_that_is_not_empty() -> None:
    answers = iter([None, [], "", "there"])
    assert until(lambda: next(answers), "an answer", pause_s=0.0) == "there"


def test_the_end_of_what_it_needs_is_told_with_what_there_is(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("no such port")
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(AssertionError, match=r"a file did not come: .* exit code 3 has ended\nno such port"):
        until((tmp_path / "made").exists, "a file", needs=process, found=log)
    with pytest.raises(AssertionError, match=f"process {process.pid} has ended"):
        until(lambda: False, "a file", needs=process.pid)


def test_a_state_that_does_not_come_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.0)
    with pytest.raises(AssertionError, match=r"rain did not come: not within 0 s\nsun"):
        until(lambda: False, "rain", found=lambda: "sun")


def test_a_process_is_gone_once_it_has_ended_whoever_asks() -> None:
    with subprocess.Popen(["sleep", "3600"]) as process:
        assert not is_gone(process)
        assert not is_gone(process.pid)
        process.kill()
        until_gone(process.pid)  # it is there until it is waited for
    until_gone(process.pid)
    assert is_gone(process)
    assert not is_gone(os.getpid())


def test_a_port_is_given_once_whoever_asks() -> None:
    ask = "from tests.ports import free_port; print(*[free_port() for _ in range(500)])"
    command = [sys.executable, "-c", ask + "; input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = set(map(int, other.stdout.readline().split()))
        ours = {free_port() for _ in range(500)}
        other.communicate("\n")
    assert len(theirs) == len(ours) == 500
    assert not theirs & ours
