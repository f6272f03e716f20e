"""All checks together: each for itself, as lines and JSON, with an exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from plumbline.doctor.examine import checks, examine, lines
from plumbline.doctor.findings import CheckState, Finding, ok, warning
from tests.tiny import run_cli


def good() -> Iterator[Finding]:
    yield ok("http://user:secret@host is well")


def crashing() -> Iterator[Finding]:
    yield warning("something", "do it")
    raise ZeroDivisionError("of its own")


def test_a_check_that_fails_stops_no_other_and_no_password_is_shown() -> None:
    results = examine({"crashing": crashing, "good": good})
    assert [item.state for item in results["crashing"]] == [CheckState.WARNING, CheckState.FAULT]
    assert "ZeroDivisionError: of its own" in results["crashing"][1].found
    assert list(lines(results))[-1] == "ok: good: http://user:***@host is well"


def test_an_empty_folder_has_no_fault_and_stays_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An analyst's installation: no project, no server; and the whole command."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    ended = run_cli("doctor", "--json", "--free", "0", cwd=tmp_path)
    answer = json.loads(ended.out)
    assert [item for check in answer["checks"] for item in check["findings"] if item["state"] == "fault"] == []
    assert answer["faults"] == ended.code == 0
    assert [check["check"] for check in answer["checks"]] == list(checks(0))
    assert list(tmp_path.iterdir()) == []


def test_faults_end_with_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/params.yaml/mlflow.db")
    whole = (Path(__file__).parents[2] / "params.yaml").read_text(encoding="utf-8")
    (tmp_path / "params.yaml").write_text(re.sub(r"epochs: \d+", "epochs: many", whole, count=1))
    ended = run_cli("doctor", "--free", "0", cwd=tmp_path)
    assert ended.code == 2
    assert "fault: params.yaml: params.yaml: train.epochs: 'many' found;" in ended.out
    assert "fault: registry: " in ended.out
    assert ended.err == f"{ended.out.count('fault: ')} faults\n"
