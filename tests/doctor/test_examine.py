"""All checks together: each for itself, in time, as lines and JSON, with an exit code."""

from __future__ import annotations

import ast
import gc
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from plumbline.doctor.examine import CHECKS, examine, lines, table
from plumbline.doctor.probes import Finding, Place, State, ok, run, warning
from tests.tiny import run_cli
from tests.waiting import until, until_gone

at_work: list[threading.Thread] = []
let_go = threading.Event()


def good(_: Place) -> Iterator[Finding]:
    at_work.append(threading.current_thread())
    yield ok("http://user:secret@host is well")


def crashing(_: Place) -> Iterator[Finding]:
    at_work.append(threading.current_thread())
    yield warning("something", "do it")
    raise ZeroDivisionError("of its own")


def hanging(_: Place) -> Iterator[Finding]:
    yield ok("so far")
    let_go.wait()
    yield ok("too late")


def silent(_: Place) -> Iterator[Finding]:
    at_work.append(threading.current_thread())
    yield from ()


def test_a_check_that_fails_hangs_or_says_nothing_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def clock() -> float:
        """As who waits for the checks sees it: almost at the limit once all have ended but the one that hangs."""
        if threading.current_thread() is not threading.main_thread():
            return 0.0
        looks.append("look")
        if len(looks) == 1:
            return 0.0
        until(lambda: len(at_work) == 3, "three checks")
        for thread in at_work:
            thread.join()
        return 599.9

    monkeypatch.setattr("plumbline.doctor.examine.time", SimpleNamespace(monotonic=clock))
    checks = {"hanging": hanging, "crashing": crashing, "silent": silent, "good": good}
    results = {result.name: result for result in examine(Place(frozenset(), seconds=600.0), checks)}
    let_go.set()  # until now it hung
    assert [item.state for item in results["crashing"].findings] == [State.WARNING, State.FAULT]
    assert "ZeroDivisionError: of its own" in results["crashing"].findings[1].found
    assert "did not end within 600 s" in results["hanging"].findings[-1].found
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


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "child"
    # The clock of its limit begins once the child is there.
    code = f"import subprocess, sys; subprocess.run(['sh', '-c', 'echo $$ > {record}; exec sleep 3600'])"

    def communicate(process: subprocess.Popen[str], timeout: float) -> tuple[str, str]:
        until(lambda: record.exists() and record.read_text(), "the child", needs=process)
        return process_communicate(process, timeout=timeout)

    process_communicate = subprocess.Popen.communicate
    monkeypatch.setattr(subprocess.Popen, "communicate", communicate)
    with pytest.raises(TimeoutError, match="did not end within"):
        run(sys.executable, "-c", code, seconds=0.1)
    until_gone(int(record.read_text()))


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
