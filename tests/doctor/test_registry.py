"""The registry: damaged, locked, not to be made, without its files; and one that is well stays as it was."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plumbline.core.files import sha256_file
from plumbline.doctor.findings import CheckState
from plumbline.doctor.project import check_registry
from plumbline.release.promotion import promote
from plumbline.release.registry import Registry
from tests.doctor.conftest import faults, states
from tests.release.conftest import MakePackage


def test_a_registry_that_is_not_there_yet_is_not_made(folder: Path) -> None:
    assert states(check_registry) == [CheckState.OK]
    assert list(folder.iterdir()) == []


def test_one_that_is_well_is_left_as_it_was(registry: Registry, make_package: MakePackage) -> None:
    promote(make_package("one"), lambda candidate, champion: None)
    before, versions = sha256_file(Path("mlflow.db")), registry.versions()
    assert states(check_registry) == [CheckState.OK]
    assert sha256_file(Path("mlflow.db")) == before
    assert registry.versions() == versions

    local = Path(registry.folder(versions[0]))
    (local / "model.onnx").write_text("spoiled")
    assert "changed since it was released" in faults(check_registry)
    shutil.rmtree(local)
    assert "are gone" in faults(check_registry)


def test_a_damaged_file(registry: Registry) -> None:
    content = bytearray(Path("mlflow.db").read_bytes())
    content[4096:40_000] = b"\xff" * (40_000 - 4096)
    Path("mlflow.db").write_bytes(content)
    assert "is damaged" in faults(check_registry)
    Path("mlflow.db").write_text("no database at all " * 100)
    assert "is damaged (file is not a database)" in faults(check_registry)


def test_a_locked_file(registry: Registry) -> None:
    hold = (
        "import sqlite3, sys; c = sqlite3.connect('mlflow.db', isolation_level=None); c.execute('BEGIN EXCLUSIVE');"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert "is locked" in faults(check_registry)
        process.communicate()
    assert states(check_registry) == [CheckState.OK]


def test_a_place_where_none_can_be_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "file").touch()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'file' / 'mlflow.db'}")
    assert "cannot be made" in faults(check_registry)


def test_a_server_that_does_not_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert "does not answer" in faults(check_registry)
