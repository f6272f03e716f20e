"""DVC's cache of a checkout keeps what recent commits and added data refer to. Real git, real DVC."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flows.versioning import caches
from flows.versioning.stage_runner import StageFailedError, reproduce
from tests.flows.conftest import Project

OWN_OBJECTS = 2
"""Number of objects of a result that no other one shares: its list of files, and the file that differs."""


def objects() -> set[str]:
    return {path.name for path in Path(".dvc/cache/files/md5").rglob("*") if path.is_file()}


def test_results_of_the_newest_commits_stay(project: Project) -> None:
    for number in range(3):
        Path("stage.py").write_text(Path("stage.py").read_text() + f'\n(out / "file.txt").write_text("{number}")\n')
        assert reproduce("simulate", str) == "ran"
        project.commit(str(number))
    before = objects()
    assert caches.tidy(project.folder, 2, dry_run=True) == OWN_OBJECTS
    assert objects() == before
    assert caches.tidy(project.folder, 2, dry_run=False) == OWN_OBJECTS
    assert caches.tidy(project.folder, 1, dry_run=False) == OWN_OBJECTS
    assert len(before) - len(objects()) == 2 * OWN_OBJECTS
    assert reproduce("simulate", str) == "unchanged"


def test_added_data_of_any_commit_stays(project: Project) -> None:
    Path("data/raw").mkdir(parents=True)
    for content in ("old", "new"):
        Path("data/raw/points.csv").write_text(content)
        subprocess.run([sys.executable, "-m", "dvc", "add", "--quiet", "data/raw/points.csv"], check=True)
        project.commit(content)
    before = objects()
    assert len(before) == 2
    assert caches.tidy(project.folder, 1, dry_run=False) == 0
    assert objects() == before


def test_a_project_that_dvc_cannot_read_loses_nothing(project: Project) -> None:
    reproduce("simulate", str)
    before = objects()
    Path("dvc.yaml").write_text("stages: [")
    with pytest.raises(StageFailedError, match="was not tidied"):
        caches.tidy(project.folder, 1, dry_run=False)
    assert objects() == before
