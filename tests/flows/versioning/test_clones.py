"""A clone takes the commit it is told, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flows.versioning import clones
from flows.versioning.clones import take
from flows.versioning.stage_runner import StageFailedError, UnreachableError
from plumbline.train.monitor import record
from tests.flows.conftest import IDENTITY, Project

pytestmark = pytest.mark.usefixtures("inside")


def git(*arguments: str, cwd: Path) -> str:
    done = subprocess.run(["git", *IDENTITY, *arguments], cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, content: str) -> str:
    (folder / "code.py").write_text(content)
    git("add", "--all", cwd=folder)
    git("commit", "--quiet", "--message", content, cwd=folder)
    return git("rev-parse", "HEAD", cwd=folder)


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit; the test stands in a clone of it."""
    folder = tmp_path / "origin"
    folder.mkdir()
    git("init", "--quiet", cwd=folder)
    (folder / ".gitignore").write_text("/data\n")
    commit(folder, "one")
    git("clone", "--quiet", str(folder), str(tmp_path / "clone"), cwd=tmp_path)
    monkeypatch.chdir(tmp_path / "clone")
    return folder


def test_what_came_to_the_origin_since_is_fetched(origin: Path) -> None:
    first = git("rev-parse", "HEAD", cwd=origin)
    second = commit(origin, "two")
    assert take(second[:8]) == second  # which the clone has not seen
    git("tag", "v2", cwd=origin)
    git("checkout", "--quiet", "-b", "side", cwd=origin)
    third = commit(origin, "three")
    known = {third[:12]: third, "HEAD": third, "v2": second, first[:7]: first, "side": third, second: second}
    for revision, expected in known.items():
        assert take(revision) == expected
        assert git("rev-parse", "HEAD", cwd=Path.cwd()) == expected
    assert Path("code.py").read_text() == "two"


def test_a_changed_clone_is_refused_by_the_names_of_the_files(origin: Path) -> None:
    Path("code.py").write_text("mine")
    Path("new.py").touch()
    with pytest.raises(StageFailedError, match=r"in no commit: code\.py, new\.py\. .*`git stash") as caught:
        take("HEAD")
    assert caught.value.exit_code == 2
    assert Path("code.py").read_text() == "mine"


def test_results_and_dvcs_own_record_are_no_changes(origin: Path) -> None:
    Path("data").mkdir()
    Path("data/result").touch()
    Path("dvc.lock").write_text("of this machine")
    Path("restoration").mkdir()
    Path("restoration/dvc.lock").write_text("of this machine")
    second = commit(origin, "two")
    assert take("HEAD") == second
    # A record that commits hold makes way for that of another commit, and stays as long as the commit does.
    Path("dvc.lock").unlink()
    (origin / "dvc.lock").write_text("first")
    commit(origin, "three")
    take("HEAD")
    Path("dvc.lock").write_text("of this machine")
    take("HEAD")
    assert Path("dvc.lock").read_text() == "of this machine"
    (origin / "dvc.lock").write_text("second")
    commit(origin, "four")
    take("HEAD")
    assert Path("dvc.lock").read_text() == "second"


def test_what_a_run_writes_is_no_change_for_a_record_of_training_either() -> None:
    assert clones.WRITTEN == record.WRITTEN


def test_figures_of_the_last_run_make_way_for_those_of_a_commit(origin: Path) -> None:
    """Those that commits hold, those of a stage that failed, and those that only the next commit holds."""
    figures = origin / "metrics/validate"
    figures.mkdir(parents=True)
    for name in ("float32.json", "int8.json"):
        (figures / name).write_text("first")
    commit(origin, "two")
    take("HEAD")
    own = Path("metrics/validate")
    (own / "float32.json").write_text("of this machine")
    (own / "int8.json").unlink()
    (own / "fp16.json").write_text("of this machine")
    take("HEAD")
    assert (own / "float32.json").read_text() == "of this machine"
    for name in ("float32.json", "fp16.json"):
        (figures / name).write_text("second")
    commit(origin, "three")
    take("HEAD")
    assert {path.name: path.read_text() for path in own.iterdir()} == {
        "float32.json": "second",
        "fp16.json": "second",
        "int8.json": "first",
    }


def test_a_revision_that_the_origin_has_not(origin: Path) -> None:
    for revision in ("nothing", "0" * 40, "0" * 8, "--upload-pack=true"):
        with pytest.raises(StageFailedError, match="commit: ") as caught:
            take(revision)
        assert caught.value.exit_code == 2
        assert not isinstance(caught.value, UnreachableError)


def test_an_origin_that_is_gone_is_asked_again_later_and_a_commit_at_hand_needs_none(origin: Path) -> None:
    here = git("rev-parse", "HEAD", cwd=origin)
    origin.rename(origin.with_name("elsewhere"))
    assert take(here) == here
    with pytest.raises(UnreachableError, match="origin does not answer"):
        take("HEAD")


def test_a_folder_that_is_no_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StageFailedError, match="No clone to work in"):
        take("HEAD")


def test_a_run_s_lock_goes_to_a_branch_that_only_grows(origin: Path) -> None:
    (origin / "dvc.lock").write_text("committed")
    source = commit(origin, "two")
    take("HEAD")
    assert "in git already" in clones.publish_lock("nothing new")
    assert git("branch", "--list", "results", cwd=origin) == ""

    Path("metrics").mkdir()
    for content in ("first", "second"):
        Path("dvc.lock").write_text(content)
        Path("metrics/train.json").write_text(content)
        assert "branch results" in clones.publish_lock(content)
        assert "in git already" in clones.publish_lock(content)
    assert git("log", "--first-parent", "--format=%s", "results", cwd=origin).splitlines()[:2] == ["second", "first"]
    assert git("merge-base", "results", "HEAD", cwd=origin) == source
    assert git("show", "results:metrics/train.json", cwd=origin) == "second"
    assert git("show", "results~1:dvc.lock", cwd=origin) == "first"
    assert git("show", "HEAD:dvc.lock", cwd=origin) == "committed"
    assert git("status", "--porcelain", cwd=origin) == ""
    assert Path("dvc.lock").read_text() == "second"
    clones.refuse_changes()


def test_an_origin_that_takes_no_push_costs_no_result(origin: Path) -> None:
    Path("dvc.lock").write_text("of this machine")
    hook = origin / ".git/hooks/pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    assert "does not accept a push" in clones.publish_lock("first")


def test_a_worker_s_clone_has_the_page_of_the_map(project: Project) -> None:
    page = project.folder / clones.PAGE
    page.mkdir(parents=True)
    (page / "app.js").write_text("built")
    home = clones.provide("cpu")
    assert (home / clones.PAGE / "app.js").read_text() == "built"
    assert git("status", "--porcelain", cwd=home) == ""
