"""All checks together: each for itself, in time, as lines and JSON, with an exit code."""

from __future__ import annotations

import ast
import gc
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from plumbline.doctor.examine import CHECKS, examine, lines, table
from plumbline.doctor.finding import Finding, Place, State, ok, warning
from plumbline.doctor.probes import run
from tests.tiny import run_cli


def good(_: Place) -> Iterator[Finding]:
    yield ok("http://user:secret@host is well")


def crashing(_: Place) -> Iterator[Finding]:
    yield warning("something", "do it")
    raise ZeroDivisionError("of its own")


def hanging(_: Place) -> Iterator[Finding]:
    yield ok("so far")
    time.sleep(600)


def silent(_: Place) -> Iterator[Finding]:
    yield from ()


def test_a_check_that_fails_hangs_or_says_nothing_stops_no_other() -> None:
    started = time.monotonic()
    checks = {"hanging": hanging, "crashing": crashing, "silent": silent, "good": good}
    results = {result.name: result for result in examine(Place(frozenset(), seconds=2.0), checks)}
    assert time.monotonic() - started < 60
    assert [item.state for item in results["crashing"].findings] == [State.WARNING, State.FAULT]
    assert "ZeroDivisionError: of its own" in results["crashing"].findings[1].found
    assert "did not end within 2 s" in results["hanging"].findings[-1].found
    assert results["silent"].state is State.FAULT
    assert results["good"].findings == [ok("http://user:***@host is well")]
    assert "fault: silent: " in "\n".join(lines(list(results.values())))
    assert table(list(results.values())).row_count == 6


class Parsing:
    """Garbage whose end parses code, as a library may in another thread, to which the collector has given way."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        ast.parse("1")


def parsing(_: Place) -> Iterator[Finding]:
    for _round in range(100):
        Parsing()
        ast.parse("f(" * 40 + ")" * 40)
    yield ok("parsed")


def test_checks_parse_code_in_threads_at_once() -> None:
    """On Python 3.11 before 3.11.8, with the collector at work, this fails every time."""
    thresholds = gc.get_threshold()
    gc.set_threshold(30)
    try:
        (result,) = examine(Place(frozenset(), seconds=250.0), {"parsing": parsing})
    finally:
        gc.set_threshold(*thresholds)
    assert result.findings == [ok("parsed")]
    assert gc.isenabled()


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    marker = tmp_path / "alive"
    code = f"import subprocess, sys; subprocess.run(['sh', '-c', 'sleep 6; touch {marker}'])"
    with pytest.raises(TimeoutError, match="did not end within"):
        run(sys.executable, "-c", code, seconds=2.0)
    time.sleep(6)
    assert not marker.exists()


def test_an_empty_folder_has_no_fault_and_stays_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An analyst's installation: no project, no server; and the whole command."""
    for name in ("PREFECT_API_URL", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    ended = run_cli("doctor", "--json", "--seconds", "250", "--free", "0", cwd=tmp_path)
    said = json.loads(ended.out)
    assert [one for check in said["checks"] for one in check["findings"] if one["state"] == "fault"] == []
    assert said["faults"] == 0
    assert ended.code == 0
    assert [check["check"] for check in said["checks"]] == list(CHECKS)
    assert list(tmp_path.iterdir()) == []


def test_faults_end_with_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/params.yaml/mlflow.db")
    whole = (Path(__file__).parents[2] / "params.yaml").read_text(encoding="utf-8")
    (tmp_path / "params.yaml").write_text(whole.replace("epochs: 8", "epochs: many"))
    ended = run_cli("doctor", "--seconds", "250", "--free", "0", cwd=tmp_path)
    assert ended.code == 2
    assert "fault: params.yaml: params.yaml: train.epochs: 'many' found;" in ended.out
    assert "fault: registry: " in ended.out
    assert "ok: package: " in ended.out
    assert "fault: dvc.yaml: params.yaml is there and dvc.yaml is not" in ended.out
    assert ended.err == f"{ended.out.count('fault: ')} faults\n"
