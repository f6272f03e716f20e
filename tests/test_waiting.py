"""A wait ends with what it waits for, or says why that does not come."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import waiting
from tests.waiting import until


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
