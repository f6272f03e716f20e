"""A disk that is full in the middle of a run: a small tmpfs, filled but for a little."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.flows.conftest import STAGE, make_project

pytestmark = pytest.mark.chaos
WRITES_MUCH = """
for n in range(1000 if name == "train" else 0):
    (out / f"{n}.bin").write_bytes(os.urandom(20_000))
"""


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of 64 MB, where this may be had."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a small disk")
    monkeypatch.delenv("SHELL", raising=False)
    monkeypatch.chdir(tmp_path)
    try:
        yield place
    finally:
        os.chdir(tmp_path)
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path, spare: int) -> Path:
    """A file that takes all of the disk but `spare` bytes."""
    ballast = disk / "ballast"
    free = shutil.disk_usage(disk).free
    with ballast.open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, free - spare)
    return ballast


def test_a_run_meets_a_full_disk(disk: Path, prefect_database: Path) -> None:
    """Prefect's own database lies on the full disk too."""
    project = make_project(disk)
    (project.folder / "stage.py").write_text(STAGE + WRITES_MUCH)
    project.commit()
    home = Path(project.environment["PREFECT_HOME"])
    home.mkdir()
    shutil.copy(prefect_database, home)
    ballast = fill(disk, 12_000_000)
    code, said = project.run("-m", "flows.pipeline")
    assert code == 1, said
    assert "prepare says hello" in said
    assert "promoted" not in said
    assert not _at_work(project.folder)
    ballast.unlink()
    code, said = project.run("-m", "flows.pipeline")
    assert code == 0, said
    assert "prepare says hello" not in said
    assert len(list((project.folder / "data/train").glob("*.bin"))) == 1000


def _at_work(folder: Path) -> list[list[str]]:
    found = []
    for process in psutil.process_iter(["cwd", "cmdline"]):
        if str(process.info["cwd"]).startswith(str(folder)):
            found.append(process.info["cmdline"])
    return found
