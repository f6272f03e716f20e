"""Tidying DVC's caches and remote: real DVC on a scratch project; what is wanted can be had, the rest is gone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from dvc.cli import main

from flows.versioning.caches import Asked, Wanted, tidy, tidy_here, unwanted
from flows.versioning.stage_runner import reproduce
from flows.versioning.stores import Entry, Store, Stored
from tests.flows.conftest import IDENTITY, Project


def dvc(*words: str) -> None:
    """As the command, without a second to start it each time."""
    assert main(list(words)) == 0


def git(*words: str) -> None:
    subprocess.run(["git", *IDENTITY, *words], check=True)


def stored(folder: str = ".dvc/cache/files") -> dict[str, int]:
    """Objects and their bytes."""
    return {path.name: path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()}


def results(project: Project, *wishes: int) -> None:
    """Results of the first stage for each wish, one after the other; each writes other files."""
    stage = Path("stage.py").read_text()
    Path("stage.py").write_text(stage.replace("write_text(name)", "write_text(name + json.dumps(want))"))
    for wish in wishes:
        project.behave(simulate={"run": wish})
        dvc("repro", "--quiet", "--single-item", "simulate")


def test_data_that_was_added_reaches_other_machines_and_is_no_waste(project: Project) -> None:
    """By the project's own .gitignore, which DVC reads in a way of its own."""
    files = [Path("data") / folder / "town" / "points.csv" for folder in ("raw", "borrowed", "deliveries")]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text(str(file))
        dvc("add", "--quiet", str(file.parent))
    project.commit("data")
    dvc("gc", "--workspace", "--force", "--quiet")
    dvc("push", "--quiet")
    for file in files:
        shutil.rmtree(file.parent)
    shutil.rmtree(".dvc/cache")
    dvc("pull", "--quiet", *(str(file.parent) + ".dvc" for file in files))
    assert [file.read_text() for file in files] == [str(file) for file in files]
    assert not subprocess.run(["git", "status", "--porcelain"], check=True, capture_output=True).stdout


def test_the_newest_results_and_what_commits_name_stay(project: Project) -> None:
    results(project, 1)
    project.commit("with the record of the first result")
    git("tag", "v1")
    Path("data/raw").mkdir()
    for words in ("first", "second"):
        Path("data/raw/points.csv").write_text(words)
        dvc("add", "--quiet", "data/raw/points.csv")
        project.commit(f"data: {words}")
    results(project, 2, 3, 4)
    project.commit("on")
    before = stored()
    asked = Asked([str(Path.cwd())], 2, dry_run=True)
    (dry,) = tidy(asked)
    assert stored() == before
    (done,) = tidy_here(Asked(asked.folders, asked.keep))
    assert dry == done
    assert done.objects == len(before) - len(stored()) == 2  # of wish 2: the folder's list, and one file
    assert done.bytes == sum(before.values()) - sum(stored().values())

    # The newest two are in the cache; of the one before, nothing is left.
    def outcome(wish: int) -> str:
        project.behave(simulate={"run": wish})
        return reproduce("simulate", str)

    assert outcome(3) == "restored"
    assert outcome(2) == "ran"
    # Data that only an old commit names, and the tag's result.
    git("checkout", "--quiet", "--force", "HEAD~2", "--", "data/raw/points.csv.dvc")
    dvc("checkout", "--quiet", "--force", "data/raw/points.csv.dvc")
    assert Path("data/raw/points.csv").read_text() == "first"
    git("checkout", "--quiet", "--force", "v1")
    dvc("checkout", "--quiet", "--force", "data/simulate")
    assert '"run": 1' in Path("data/simulate/file.txt").read_text()


def test_the_remote_is_left_alone_unless_asked(project: Project) -> None:
    Path(".dvc-remote").mkdir()
    for wish in (1, 2):
        results(project, wish)
        dvc("push", "--quiet", "--run-cache", "simulate")
    folders = [str(Path.cwd())]
    before = stored(".dvc-remote/files")
    tidy_here(Asked(folders, 1))
    assert stored(".dvc-remote/files") == before
    (_, remote) = tidy_here(Asked(folders, 1, remote=True))
    assert remote.objects == 0  # all of it is of today
    assert len(stored(".dvc-remote/runs")) == 2
    (_, remote) = tidy_here(Asked(folders, 1, remote=True, days=0))
    assert remote.objects == len(before) - len(stored(".dvc-remote/files")) == 2
    assert len(stored(".dvc-remote/runs")) == 1

    # What went is made again, and reaches the remote again.
    project.behave(simulate={"run": 1})
    assert reproduce("simulate", str, pull=True) == "ran"
    dvc("push", "--quiet", "--run-cache", "simulate")
    assert stored(".dvc-remote/files") == before


def store(entries: list[Entry], changed: dict[str, float]) -> Store:
    found = object.__new__(Store)
    found.entries, found.objects = entries, {out: Stored(out, 1, when) for out, when in changed.items()}
    return found


def test_an_entry_counts_by_its_files_and_not_by_its_own_date() -> None:
    """One whose files are gone is of no use; that of the present state stays, and so does what two share."""
    old, new, lost, present, other = (
        Entry(name, name, paths, (out,))
        for name, paths, out in (
            ("old", ("data/a",), "1"),
            ("new", ("data/a",), "2"),
            ("lost", ("data/a",), "3"),
            ("present", ("data/a",), "4"),
            ("other", ("data/b",), "1"),
        )
    )
    found = store([old, lost, new, present, other], {"1": 1.0, "2": 9.0, "4": 0.5, "5": 10.0, "6": 2.0})
    going, objects = unwanted(found, Wanted({"6"}, {"present"}), 1)
    assert [entry.name for entry in going] == ["old", "lost"]
    assert objects == ["5"]


def test_what_lies_outside_of_the_checkout_may_be_others(project: Project, tmp_path: Path) -> None:
    dvc("cache", "dir", str(tmp_path.with_name("shared")), "--local")
    results(project, 1, 2)
    assert tidy_here(Asked([str(Path.cwd())], 1)) == []
