"""A machine's own clone, put on the commit that it is told."""

from __future__ import annotations

import re
from pathlib import Path

from flows.versioning import process
from flows.versioning.stages import BAD_INPUT, StageFailedError, UnreachableError

LIMIT_S = 600.0
_FULL_HASH = re.compile(r"[0-9a-f]{40}")
_SHORT_HASH = re.compile(r"[0-9a-f]{4,39}")
# DVC writes it as it works; what it says of this machine's last run is no part of the commit.
_OWN_RECORD = "dvc.lock"


HERE = Path()


def take(revision: str, folder: Path = HERE) -> str:
    """Put a clone on a commit of its origin, and return the commit's full hash.

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
    """Refuse a clone that holds what no commit has: its result would be filed under a commit that did not make it.

    Raises:
        StageFailedError: it does, or the working directory is no clone.
    """
    code, said = _git(folder, "status", "--porcelain", "--untracked-files=normal")
    if code:
        raise StageFailedError(f"No clone to work in: {' '.join(said)}", BAD_INPUT)
    changed = [line[3:] for line in said if line[3:] != _OWN_RECORD]
    if changed:
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise StageFailedError(
            f"The clone {folder.resolve()} holds changes that are in no commit: "
            f"{', '.join(changed[:5])}{more}. A worker's clone is its "
            "own: commit them elsewhere, then `git stash --include-untracked` here.",
            BAD_INPUT,
        )


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
    """Where commits hold DVC's record, this machine's makes way for it."""
    if _git(folder, "ls-files", "--error-unmatch", _OWN_RECORD)[0] == 0:
        _git(folder, "checkout", "--quiet", "HEAD", "--", _OWN_RECORD)
    elif _git(folder, "cat-file", "-e", f"{commit}:{_OWN_RECORD}")[0] == 0:
        (folder / _OWN_RECORD).unlink(missing_ok=True)


def _git(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    said: list[str] = []
    # In English, because the words of a refusal tell a wrong name from a network that is down.
    words = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    try:
        code = process.run(["git", "-C", str(folder), *arguments], said.append, limit_s=LIMIT_S, environment=words)
    except process.TookTooLongError as error:
        raise UnreachableError(f"git {arguments[0]}: {error}") from error
    return code, said
