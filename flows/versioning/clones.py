"""Check out a commit in a clone, and keep one clone for each worker of this machine."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.orchestration.services import FOLDER
from flows.versioning import process
from flows.versioning.stage_runner import BAD_INPUT, StageFailedError, UnreachableError

LIMIT_S = 600.0
_FULL_HASH = re.compile(r"[0-9a-f]{40}")
_SHORT_HASH = re.compile(r"[0-9a-f]{4,39}")
WRITTEN = ("dvc.lock", "metrics", "restoration/dvc.lock", "restoration/metrics")
"""Each run writes them anew: those of this machine's last run are no part of the commit."""
# What git calls the folder of a family in a commit that has none: then all in it was left by
# runs of other commits.
_FAMILY = "restoration/"


HERE = Path()
RESULTS = "refs/heads/results"
"""Branch of the origin to which runs commit what they locked."""
PUSHES = 3
"""Largest number of pushes to that branch, each after fetching what another worker has
pushed meanwhile."""
_NAME = {"NAME": "Plumbline", "EMAIL": "plumbline@localhost"}
AUTHOR = {
    f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in _NAME.items()
}
"""Variables that name the author of such a commit."""
PAGE = Path("src/plumbline/serve/map/page")
"""The built page of the map, which git ignores and the stage `predict` reads."""


def take(revision: str, folder: Path = HERE) -> str:
    """Check out a commit of its origin in a clone; return the commit's full hash.

    Args:
        revision: hash, branch or tag of the origin; `HEAD` is the branch the origin itself is on.
        folder: the clone.

    Raises:
        StageFailedError: the clone holds changes of somebody's, or the origin has no such revision.
        UnreachableError: the origin does not answer.
    """
    refuse_changes(folder)
    here = (
        _FULL_HASH.fullmatch(revision)
        and _git(folder, "cat-file", "-e", f"{revision}^{{commit}}")[0] == 0
    )
    commit = revision if here else _fetched(revision, folder)
    if _git(folder, "rev-parse", "HEAD")[1] != [commit]:
        _forget_own_record(commit, folder)
        code, lines = _git(folder, "checkout", "--quiet", "--detach", commit)
        if code:
            raise StageFailedError(
                f"This clone cannot take commit {commit}: {' '.join(lines)}",
                BAD_INPUT,
                key="clone.no_checkout",
            )
    return commit


def publish_lock(subject: str, folder: Path = HERE) -> str:
    """Commit the lock and the figures of a run to the branch `results` of the origin;
    return a line for the log.

    Anybody takes the results from there with plain `git` and `dvc pull`. The commit's
    parents are the branch's last commit, so that it only ever grows, and the commit that
    was run. An origin that accepts no push is no failure: the results themselves are in
    DVC's remote.

    Raises:
        UnreachableError: git takes longer than `LIMIT_S`.
    """
    index = {
        "GIT_INDEX_FILE": str(
            Path(_ask_git(folder, "rev-parse", "--absolute-git-dir"), "results-index")
        )
    }
    records = [path for path in WRITTEN if (folder / path).exists()]
    for _ in range(PUSHES):
        _git(folder, "fetch", "--quiet", "origin", f"+{RESULTS}:{RESULTS}")
        last = _git(folder, "rev-parse", "--quiet", "--verify", RESULTS)
        _ask_git(folder, "read-tree", "HEAD", environment=index)
        _ask_git(folder, "add", "--all", "--", *records, environment=index)
        tree = _ask_git(folder, "write-tree", environment=index)
        former = last[1][0] if last[0] == 0 else "HEAD"
        if tree == _ask_git(folder, "rev-parse", f"{former}^{{tree}}"):
            return "The lock and the figures are in git already"
        parents = [word for parent in dict.fromkeys((former, "HEAD")) for word in ("-p", parent)]
        commit = _ask_git(folder, "commit-tree", tree, *parents, "-m", subject, environment=AUTHOR)
        code, lines = _git(folder, "push", "--quiet", "origin", f"{commit}:{RESULTS}")
        if code == 0:
            return f"The lock and the figures are commit {commit[:12]} of the branch results"
    return (
        f"The lock was not sent: the origin does not accept a push to {RESULTS} ({' '.join(lines)})"
    )


def refuse_changes(folder: Path = HERE) -> None:
    """Refuse a clone with uncommitted changes: its result would be filed under a commit
    that did not make it.

    Raises:
        StageFailedError: it does, or the working directory is no clone.
    """
    code, lines = _git(folder, "status", "--porcelain", "--untracked-files=normal")
    if code:
        raise StageFailedError(
            f"No clone to work in: {' '.join(lines)}", BAD_INPUT, key="clone.missing"
        )
    changed = [line[3:] for line in lines if not _is_own_record(line[3:])]
    if changed:
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise StageFailedError(
            f"The clone {folder.resolve()} holds changes that are in no commit: "
            f"{', '.join(changed[:5])}{more}. A worker's clone is its "
            "own: commit them elsewhere, then `git stash --include-untracked` here.",
            BAD_INPUT,
            key="clone.changed",
        )


def _is_own_record(path: str) -> bool:
    """Return whether a run here has written it, so that it is no part of the commit."""
    return path == _FAMILY or any(
        path == record or path.startswith(f"{record}/") for record in WRITTEN
    )


def _fetched(revision: str, folder: Path) -> str:
    if revision.startswith("-"):
        raise StageFailedError(
            f"commit: {revision} found; a hash, a branch or a tag is needed",
            BAD_INPUT,
            key="commit.not_a_revision",
        )
    code, lines = _git(folder, "fetch", "--quiet", "origin", revision)
    if code:
        message = " ".join(lines)
        if (
            "couldn't find remote ref" in message
            or "not our ref" in message
            or "invalid refspec" in message
        ):
            # Origins know full hashes only: all that they have is looked through here.
            if _SHORT_HASH.fullmatch(revision):
                _git(folder, "fetch", "--quiet", "--tags", "origin")
                code, commit = _git(
                    folder, "rev-parse", "--quiet", "--verify", f"{revision}^{{commit}}"
                )
                if not code:
                    return commit[0]
            raise StageFailedError(
                f"commit: the origin has no {revision}. Push it there first.",
                BAD_INPUT,
                key="commit.not_in_origin",
            )
        raise UnreachableError(
            f"The clone's origin does not answer: {message}", key="origin.no_answer"
        )
    return _git(folder, "rev-parse", "--verify", "FETCH_HEAD^{commit}")[1][0]


def _forget_own_record(commit: str, folder: Path) -> None:
    """Remove this machine's own records of its runs where the commit has them."""
    for record in WRITTEN:
        if _git(folder, "ls-files", "--error-unmatch", record)[0] == 0:
            _git(folder, "checkout", "--quiet", "HEAD", "--", record)
        if _git(folder, "cat-file", "-e", f"{commit}:{record}")[0] == 0:
            _git(folder, "clean", "--quiet", "--force", "-d", "--", record)


def _git(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> tuple[int, list[str]]:
    lines: list[str] = []
    # In English, because the words of a refusal tell a wrong name from a network that is down.
    variables = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", **(environment or {})}
    command = ["git", "-C", str(folder), *arguments]
    try:
        code = process.run(command, lines.append, limit_s=LIMIT_S, environment=variables)
    except process.TookTooLongError as error:
        raise UnreachableError(f"git {arguments[0]}: {error}", key="git.too_long") from error
    return code, lines


def _ask_git(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Return the first line that git prints; a command of which nothing but success is expected."""
    code, lines = _git(folder, *arguments, environment=environment)
    if code:
        raise StageFailedError(f"git {arguments[0]}: {' '.join(lines)}", 1, key="git.failed")
    return lines[0] if lines else ""


HOMES = FOLDER / "clones"


def provide(worker: str) -> Path:
    """Return the folder of an idle worker's clone, at this project's commit.

    A missing clone is made. The worker loads its flows from the clone, and these must
    accept the parameters of the deployments. Its DVC remote is this project's, by an
    absolute path if that is a folder; the folder is made.

    Raises:
        StageFailedError: this is no project under git with a commit, it has no remote, or
            the clone was changed.
    """
    home = (HOMES / worker).resolve()
    if not (home / ".git").exists():
        shutil.rmtree(home, ignore_errors=True)  # cut short
        home.parent.mkdir(parents=True, exist_ok=True)
        new = home.with_name(f"{worker}.new")
        shutil.rmtree(new, ignore_errors=True)
        code, lines = _git(HERE, "clone", "--quiet", str(Path.cwd()), str(new))
        if code:
            raise StageFailedError(
                f"{home}: no clone can be made: {' '.join(lines)}", BAD_INPUT, key="clone.not_made"
            )
        new.rename(home)
    take("HEAD", home)
    _same_remote(home)
    _copy_page(home)
    return home


def _copy_page(home: Path) -> None:
    """Give a clone the page of the map as it was built here, so that it draws and hashes the
    same."""
    shutil.rmtree(home / PAGE, ignore_errors=True)
    if PAGE.is_dir():
        shutil.copytree(PAGE, home / PAGE)


def provided() -> list[Path]:
    """Return the clones on this machine."""
    return sorted(path.parent for path in HOMES.glob("*/.git"))


def remark_on_changes() -> str | None:
    """Return a remark if this folder has uncommitted changes, which workers do not see."""
    try:
        refuse_changes()
    except StageFailedError:
        return (
            "This folder holds changes that are in no commit: workers do not see them until "
            "you commit."
        )
    return None


def _same_remote(home: Path) -> None:
    from dvc.config import Config, NoRemoteError

    settings = Config(str(Path(".dvc").resolve()))
    name = settings["core"].get("remote")
    if not name:
        raise StageFailedError(
            "DVC has no default remote, by which workers would share results: `dvc remote add -d`.",
            BAD_INPUT,
            key="remote.none",
        )
    try:
        remote: dict[str, Any] = settings["remote"][name]
    except (KeyError, NoRemoteError) as error:
        raise StageFailedError(
            f"DVC's default remote {name} is not defined: {error}",
            BAD_INPUT,
            key="remote.not_defined",
        ) from error
    local_config = Path(".dvc/config.local")
    if local_config.exists():  # with passwords, and remotes that only this machine has
        shutil.copy(local_config, home / ".dvc" / local_config.name)
    url = str(remote["url"])
    if "://" not in url:
        Path(url).mkdir(parents=True, exist_ok=True)
        with Config(str(home / ".dvc")).edit("local") as edited:
            edited.setdefault("remote", {}).setdefault(name, {})["url"] = str(Path(url).resolve())
