"""Tidying DVC's caches and remote: real DVC on a scratch project; what is wanted can be had, the rest is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from flows.caches import Asked, Wanted, tidy, unwanted
from flows.stages import reproduce
from flows.stores import Entry, Store, Stored
from tests.flows.conftest import IDENTITY, Project


def dvc(*words: str) -> str:
    command = [sys.executable, "-m", "dvc", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def git(*words: str) -> None:
    subprocess.run(["git", *IDENTITY, *words], check=True)


def inodes() -> set[str]:
    return {str(path) for path in Path(".dvc/cache").rglob("*")}


def results(project: Project, *wishes: int) -> None:
    """Results of the first stage for each wish, one after the other; each writes other files."""
    stage = Path("stage.py").read_text()
    Path("stage.py").write_text(stage.replace("write_text(name)", "write_text(name + json.dumps(want))"))
    for wish in wishes:
        project.behave(simulate={"run": wish})
        reproduce("simulate", str)


def test_the_newest_results_and_what_commits_name_stay(project: Project) -> None:
    results(project, 1)
    project.commit("the record of the first result is in a commit")
    git("tag", "v1")
    results(project, 2)
    Path("data/raw").mkdir()
    for words in ("first", "second"):
        Path("data/raw/points.csv").write_text(words)
        dvc("add", "data/raw/points.csv")
        project.commit(f"data: {words}")
    results(project, 3, 4, 5)
    project.commit("on")
    before = inodes()
    asked = Asked([str(Path.cwd())], 2, dry_run=True)
    (dry,) = tidy(asked)
    assert inodes() == before
    size = sum(path.stat().st_size for path in Path(".dvc/cache/files").rglob("*") if path.is_file())
    (done,) = tidy(Asked(asked.folders, asked.keep))
    assert dry == done
    assert size - done.bytes == sum(p.stat().st_size for p in Path(".dvc/cache/files").rglob("*") if p.is_file())
    assert done.objects >= 2  # of wishes 2 and 3: the folder's list and the file of each
    assert tidy(Asked(asked.folders, asked.keep))[0].objects == 0

    # The newest two are taken from the cache; of the second, nothing is left.
    def outcome(wish: int) -> str:
        project.behave(simulate={"run": wish})
        return reproduce("simulate", str)

    assert [outcome(wish) for wish in (4, 5)] == ["restored", "restored"]
    assert outcome(2) == "ran"
    # Data that only an old commit names, and the tag's result.
    subprocess.run(
        ["git", *IDENTITY, "checkout", "--quiet", "--force", "HEAD~2", "--", "data/raw/points.csv.dvc"], check=True
    )
    dvc("checkout", "data/raw/points.csv")
    assert Path("data/raw/points.csv").read_text() == "first"
    git("checkout", "--quiet", "--force", "v1")
    dvc("checkout", "data/simulate")
    assert '"run": 1' in Path("data/simulate/file.txt").read_text()


def test_the_remote_is_left_alone_unless_asked(project: Project) -> None:
    Path(".dvc-remote").mkdir()
    results(project, 1)
    dvc("push", "--run-cache")
    results(project, 2)
    dvc("push", "--run-cache")

    def stored() -> set[str]:
        return {path.name for path in Path(".dvc-remote/files").rglob("*") if path.is_file()}

    before = stored()
    tidy(Asked([str(Path.cwd())], 1))
    assert stored() == before
    (_, remote) = tidy(Asked([str(Path.cwd())], 1, remote=True))
    assert remote.objects >= 2
    assert stored() < before
    assert len(list(Path(".dvc-remote/runs").rglob("*"))) == 3  # one entry, in the folders of its key

    # Another machine takes what stayed, and what went is pushed again by whoever makes it again.
    project.behave(simulate={"run": 1})
    assert reproduce("simulate", str, pull=True) == "ran"
    dvc("push", "--run-cache", "simulate")
    assert stored() >= {path.name for path in Path(".dvc/cache/files").rglob("*.dir")}


def store(entries: list[Entry], changed: dict[str, float]) -> Store:
    found = object.__new__(Store)
    found.entries, found.objects = entries, {out: Stored(out, 1, when) for out, when in changed.items()}
    return found


def test_an_entry_counts_by_its_files_and_not_by_its_own_date() -> None:
    """One whose files are gone is of no use; that of the present state stays, and so does what two share."""
    old, new, lost, present, other = (
        Entry(name, name, paths, (out,))
        for name, paths, out in (
            ("old", ("data/a",), "1"), ("new", ("data/a",), "2"), ("lost", ("data/a",), "3"),
            ("present", ("data/a",), "4"), ("other", ("data/b",), "1"),
        )
    )  # fmt: skip
    found = store([old, lost, new, present, other], {"1": 1.0, "2": 9.0, "4": 0.5, "5": 10.0, "6": 2.0})
    going, objects = unwanted(found, Wanted({"6"}, {"present"}), 1)
    assert [entry.name for entry in going] == ["old", "lost"]
    assert objects == ["5"]


def test_what_lies_outside_of_the_checkout_may_be_others(project: Project, tmp_path: Path) -> None:
    dvc("cache", "dir", str(tmp_path.with_name("shared")), "--local")
    results(project, 1, 2, 3)
    assert tidy(Asked([str(Path.cwd())], 1)) == []
