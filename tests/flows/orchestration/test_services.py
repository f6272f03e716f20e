"""What was started is ended, with all its children; a number that went to another process ends nobody."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from flows.orchestration.services import RECORD, Record, Service, log_of, read_record
from tests.waiting import until, until_gone

# A child that leaves its parent, its group and its session, as a daemon does.
RUNAWAY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
print(child.pid, flush=True)
if sys.argv[1] == "stay":
    time.sleep(3600)
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def child_of(name: str) -> int:
    """The number that a service wrote into its log."""
    return int(until(lambda: log_of(name).read_text().split(), "a child")[0])


@pytest.mark.parametrize("parent", ["stay", "leave"])
def test_children_are_ended_whatever_became_of_their_parent(parent: str) -> None:
    record = Record(1)
    service = record.start("one", [sys.executable, "-c", RUNAWAY, parent], {"SAID": "so"})
    child = child_of("one")
    assert read_record() == record
    if parent == "leave":
        until_gone(service.pid)
        assert not record.alive()
    assert record.variables("SAID", "one") == {"so"}
    assert record.variables("SAID", "two") == set()
    record.end_children("two")
    os.kill(child, 0)
    record.end("one")
    record.end_children("one")
    until_gone(child)
    record.forget("one")
    assert not RECORD.exists()
    assert read_record() is None


def test_a_number_that_went_to_another_process_ends_nobody() -> None:
    with subprocess.Popen(["sleep", "3600"]) as other:
        record = Record(1, services=[Service("one", other.pid, started=1)])
        assert not record.alive()
        record.end("one")
        record.end_children("one")
        assert other.poll() is None
        other.kill()


def test_a_record_of_before_the_boot_or_cut_short_counts_for_nothing() -> None:
    record = Record(1)
    record.start("one", ["sleep", "3600"], {})
    replace(record, boot="another").write()
    assert read_record() is None
    RECORD.write_text(RECORD.read_text()[:-20])
    assert read_record() is None
    record.end("one")
    assert not record.alive()
