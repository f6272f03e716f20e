"""A folder of the test's own to break things in, and what the checks say of it."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from plumbline.doctor.probes import Check, Place, State
from tests.release.conftest import make_package, registry, template_db

__all__ = ["make_package", "registry", "template_db"]

ROOT = Path(__file__).parents[2]
PLACE = Place(frozenset({"simulate", "train"}), seconds=120)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, empty, with no server in the environment."""
    for name in ("PREFECT_API_URL", "PREFECT_API_KEY", "PREFECT_API_AUTH_STRING", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def project(folder: Path) -> Path:
    """A project with the real parameters, and the DVC settings that a clone has."""
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    (folder / ".dvc").mkdir()
    for name in (".dvc/config", "params.yaml"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "dvc.yaml").write_text("stages:\n  train:\n    cmd: plumbline train\n    outs: [data/train]\n")
    return folder


def states(check: Check, place: Place = PLACE) -> list[State]:
    """States of what a check finds."""
    return [item.state for item in check(place)]


def faults(check: Check, place: Place = PLACE) -> str:
    """What a check found to be a fault; each says how to mend it."""
    return told(check, State.FAULT, place)


def warnings(check: Check, place: Place = PLACE) -> str:
    """What a check warns of; each says what to do."""
    return told(check, State.WARNING, place)


def told(check: Check, state: State, place: Place) -> str:
    """What a check says of things in one state."""
    items = [item for item in check(place) if item.state is state]
    assert all(bool(item.mend) == (state in (State.WARNING, State.FAULT)) for item in items)
    return "\n".join(f"{item.found} -> {item.mend}" for item in items)


@pytest.fixture
def dead() -> Iterator[int]:
    """A port that is bound and at which nobody listens: every connection is refused."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
