"""Check out a commit in a clone, and keep one clone for each worker of this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
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
# What git calls the folder of a family in a commit that has none: then all in it was left by runs of other commits.
_FAMILY = "restoration/"


HERE = Path()


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
    here = _FULL_HASH.fullmatch(revision) and _git(folder, "cat-file", "-e", f"{revision}^{{commit}}")[0] == 0
    commit = revision if here else _fetched(revision, folder)
    if _git(folder, "rev-parse", "HEAD")[1] != [commit]:
        _forget_own_record(commit, folder)
        code, said = _git(folder, "checkout", "--quiet", "--detach", commit)
        if code:
            raise StageFailedError(f"This clone cannot take commit {commit}: {' '.join(said)}", BAD_INPUT)
    return commit


def refuse_changes(folder: Path = HERE) -> None:
    """Refuse a clone with uncommitted changes: its result would be filed under a commit that did not make it.

    Raises:
        StageFailedError: it does, or the working directory is no clone.
    """
    code, said = _git(folder, "status", "--porcelain", "--untracked-files=normal")
    if code:
        raise StageFailedError(f"No clone to work in: {' '.join(said)}", BAD_INPUT)
    changed = [line[3:] for line in said if not _is_own_record(line[3:])]
    if changed:
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise StageFailedError(
            f"The clone {folder.resolve()} holds changes that are in no commit: "
            f"{', '.join(changed[:5])}{more}. A worker's clone is its "
            "own: commit them elsewhere, then `git stash --include-untracked` here.",
            BAD_INPUT,
        )


def _is_own_record(path: str) -> bool:
    """Return whether a run here has written it, so that it is no part of the commit."""
    return path == _FAMILY or any(path == record or path.startswith(f"{record}/") for record in WRITTEN)


def _fetched(revision: str, folder: Path) -> str:
    if revision.startswith("-"):
        raise StageFailedError(f"commit: {revision} found; a hash, a branch or a tag is needed", BAD_INPUT)
    code, said = _git(folder, "fetch", "--quiet", "origin", revision)
    if code:
        told = " ".join(said)
        if "couldn't find remote ref" in told or "not our ref" in told or "invalid refspec" in told:
            # Origins know full hashes only: all that they have is looked through here.
            if _SHORT_HASH.fullmatch(revision):
                _git(folder, "fetch", "--quiet", "--tags", "origin")
                code, commit = _git(folder, "rev-parse", "--quiet", "--verify", f"{revision}^{{commit}}")
                if not code:
                    return commit[0]
            raise StageFailedError(f"commit: the origin has no {revision}. Push it there first.", BAD_INPUT)
        raise UnreachableError(f"The clone's origin does not answer: {told}")
    return _git(folder, "rev-parse", "--verify", "FETCH_HEAD^{commit}")[1][0]


def _forget_own_record(commit: str, folder: Path) -> None:
    """Remove this machine's own records of its runs where the commit has them."""
    for record in WRITTEN:
        if _git(folder, "ls-files", "--error-unmatch", record)[0] == 0:
            _git(folder, "checkout", "--quiet", "HEAD", "--", record)
        if _git(folder, "cat-file", "-e", f"{commit}:{record}")[0] == 0:
            _git(folder, "clean", "--quiet", "--force", "-d", "--", record)


def _git(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    said: list[str] = []
    # In English, because the words of a refusal tell a wrong name from a network that is down.
    words = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    try:
        code = process.run(["git", "-C", str(folder), *arguments], said.append, limit_s=LIMIT_S, environment=words)
    except process.TookTooLongError as error:
        raise UnreachableError(f"git {arguments[0]}: {error}") from error
    return code, said


HOMES = FOLDER / "clones"


def provide(worker: str) -> Path:
    """Return the folder of an idle worker's clone, at this project's commit.

    A missing clone is made. The worker loads its flows from the clone, and these must accept the parameters of the
    deployments. Its DVC remote is this project's, by an absolute path if that is a folder; the folder is made.

    Raises:
        StageFailedError: this is no project under git with a commit, it has no remote, or the clone was changed.
    """
    home = (HOMES / worker).resolve()
    if not (home / ".git").exists():
        shutil.rmtree(home, ignore_errors=True)  # cut short
        home.parent.mkdir(parents=True, exist_ok=True)
        new = home.with_name(f"{worker}.new")
        shutil.rmtree(new, ignore_errors=True)
        _git_or_fail("clone", "--quiet", str(Path.cwd()), str(new))
        new.rename(home)
    take("HEAD", home)
    _same_remote(home)
    return home


def provided() -> list[Path]:
    """Return the clones on this machine."""
    return sorted(path.parent for path in HOMES.glob("*/.git"))


def told_of_changes() -> str | None:
    """Return a remark if this folder has uncommitted changes, which workers do not see."""
    try:
        refuse_changes()
    except StageFailedError:
        return "This folder holds changes that are in no commit: workers do not see them until you commit."
    return None


def _same_remote(home: Path) -> None:
    from dvc.config import Config, NoRemoteError

    settings = Config(str(Path(".dvc").resolve()))
    name = settings["core"].get("remote")
    if not name:
        raise StageFailedError(
            "DVC has no default remote, by which workers would share results: `dvc remote add -d`.", BAD_INPUT
        )
    try:
        remote: dict[str, Any] = settings["remote"][name]
    except (KeyError, NoRemoteError) as error:
        raise StageFailedError(f"DVC's default remote {name} is not defined: {error}", BAD_INPUT) from error
    own = Path(".dvc/config.local")
    if own.exists():  # with passwords, and remotes that only this machine has
        shutil.copy(own, home / ".dvc" / own.name)
    url = str(remote["url"])
    if "://" not in url:
        Path(url).mkdir(parents=True, exist_ok=True)
        with Config(str(home / ".dvc")).edit("local") as edited:
            edited.setdefault("remote", {}).setdefault(name, {})["url"] = str(Path(url).resolve())


def _git_or_fail(*arguments: str) -> None:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise StageFailedError(f"git {arguments[0]}: {done.stderr.strip()}", BAD_INPUT)
