"""DVC's cache keeps here what any commit names, and in a clone what the newest name. Real git, real DVC."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flows import tidy
from flows.versioning.stage_runner import StageFailedError, reproduce
from plumbline.params import Tidy
from tests.flows.conftest import Project, dvc

pytestmark = pytest.mark.usefixtures("inside")
OWN_OBJECTS = 2
"""Number of objects of a result that no other one shares: its list of files, and the file that differs."""


def objects() -> set[str]:
    return {path.name for path in Path(".dvc/cache/files/md5").rglob("*") if path.is_file()}


def tidied(project: Project, runs: int, here: bool, dry_run: bool = False) -> str:
    with pytest.MonkeyPatch.context() as patch:
        if not here:
            patch.chdir("/")
        return tidy._caches(Tidy(runs=runs), [project.folder], dry_run)


def test_in_a_clone_results_of_the_newest_commits_stay(project: Project) -> None:
    for number in range(3):
        Path("stage.py").write_text(Path("stage.py").read_text() + f'\n(out / "file.txt").write_text("{number}")\n')
        assert reproduce("simulate", str) == "ran"
        project.commit(str(number))
    before = objects()
    assert tidied(project, 1, here=True) == "0 objects of DVC"
    assert tidied(project, 2, here=False, dry_run=True) == f"{OWN_OBJECTS} objects of DVC"
    assert objects() == before
    assert tidied(project, 1, here=False) == f"{2 * OWN_OBJECTS} objects of DVC"
    assert len(before) - len(objects()) == 2 * OWN_OBJECTS
    assert reproduce("simulate", str) == "unchanged"


def test_here_added_data_of_any_commit_stays(project: Project) -> None:
    Path("data/raw").mkdir(parents=True)
    for content in ("old", "new", "in no commit"):
        Path("data/raw/points.csv").write_text(content)
        dvc("add", "--quiet", "data/raw/points.csv")
        if content != "in no commit":
            project.commit(content)
    subprocess.run(["git", "checkout", "--quiet", "."], check=True)
    assert tidied(project, 1, here=True) == "1 objects of DVC"
    assert len(objects()) == 2


def test_a_shared_cache_is_left_alone(project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    shared = tmp_path_factory.mktemp("shared")
    dvc("cache", "dir", "--local", str(shared))
    (shared / "files/md5/aa").mkdir(parents=True)
    (shared / "files/md5/aa" / ("b" * 30)).touch()
    assert tidied(project, 1, here=True) == "0 objects of DVC"
    assert list((shared / "files/md5/aa").iterdir())


def test_a_project_that_dvc_cannot_read_loses_nothing(project: Project) -> None:
    reproduce("simulate", str)
    before = objects()
    Path("dvc.yaml").write_text("stages: [")
    with pytest.raises(StageFailedError, match="was not tidied"):
        tidied(project, 1, here=True)
    assert objects() == before
