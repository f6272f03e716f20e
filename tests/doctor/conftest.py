"""A folder of the test's own to break things in, and what the checks say of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from plumbline.doctor.findings import Check, CheckState
from tests.release.conftest import make_package, registry, template_db

__all__ = ["make_package", "registry", "template_db"]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, empty, with no server in the environment."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def project(folder: Path) -> Path:
    """A project with the real parameters."""
    shutil.copy(ROOT / "params.yaml", folder / "params.yaml")
    (folder / "dvc.yaml").write_text("stages:\n  train:\n    cmd: plumbline train\n    outs: [data/train]\n")
    return folder


def states(check: Check) -> list[CheckState]:
    """States of what a check finds."""
    return [item.state for item in check()]


def faults(check: Check) -> str:
    """What a check found to be a fault; each says how to mend it."""
    items = [item for item in check() if item.state is CheckState.FAULT]
    assert all(item.mend for item in items)
    return "\n".join(f"{item.found} -> {item.mend}" for item in items)
