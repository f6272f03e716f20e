"""Remove from DVC's cache of a checkout what no recent commit, no tag and no added data refers to.

DVC's own `gc` removes older versions of added data, too, which nobody can make again; so its parts are used here with
one set more. `python -m flows.versioning.caches FOLDER KEEP [--dry-run]` runs in a process of its own: DVC may ask a
store that is down for a list of files, and such a process can be ended.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from flows.versioning import process
from flows.versioning.stage_runner import BAD_INPUT, StageFailedError, UnreachableError

LIMIT_S = 1800.0
"""Largest number of seconds that tidying one cache may take."""
DRY_RUN = "--dry-run"


def tidy(folder: Path, keep: int, dry_run: bool) -> int:
    """Remove unneeded objects from the cache of a checkout; return their number.

    Args:
        folder: a checkout that the caller has locked.
        keep: number of newest commits of each branch whose results stay.
        dry_run: count them and remove nothing.

    Raises:
        UnreachableError: it took longer than `LIMIT_S`.
        StageFailedError: something could not be read, so nothing was removed.
    """
    lines: list[str] = []
    command = [sys.executable, "-m", "flows.versioning.caches", str(folder), str(keep)]
    try:
        code = process.run([*command, *([DRY_RUN] if dry_run else [])], lines.append, limit_s=LIMIT_S)
    except process.TookTooLongError as error:
        raise UnreachableError(f"tidying DVC's cache of {folder}: {error}") from error
    last = lines[-1] if lines else "no output"
    if code:
        raise StageFailedError(f"DVC's cache of {folder} was not tidied: {last}", 1)
    return int(last)


def select_needed(repo: Any, keep: int) -> set[Any]:
    """Return the hashes (DVC's HashInfo) of all objects that stay, files inside of folders included."""
    named = repo.used_objs(
        all_branches=True,
        all_tags=True,
        all_experiments=True,
        revs=_list_data_commits(Path(repo.root_dir)),
        num=keep,
        # A folder whose list of files is neither here nor in the remote cannot be restored by anybody.
        force=True,
    )
    return set().union(*named.values()) if named else set()


def _list_data_commits(folder: Path) -> list[str]:
    """List commits that changed a `.dvc` file: together they name every version of all data ever added."""
    lines: list[str] = []
    command = ["git", "-C", str(folder), "log", "--all", "--full-history", "--format=%H", "--", "*.dvc"]
    if process.run(command, lines.append, limit_s=LIMIT_S):
        raise StageFailedError(f"git log: {' '.join(lines)}", BAD_INPUT)
    return [line for line in lines if re.fullmatch(r"[0-9a-f]{40}", line)]


def main(arguments: list[str]) -> int:
    """Tidy the cache that the arguments name; the last line of output is the number of objects."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc_data.hashfile.gc import gc

    folder, keep = arguments[:2]
    try:
        with Repo(folder) as repo, repo.lock:
            # A cache may stand under several names; a set has it once.
            caches = {cache for _, cache in repo.cache.by_scheme() if _is_inside(cache, repo)}
            needed = select_needed(repo, int(keep))
            count = sum(gc(cache, needed, dry=DRY_RUN in arguments) for cache in caches)
    except (StageFailedError, DvcException) as error:
        sys.stdout.write(" ".join(f"{error} {error.__cause__ or ''}".split()) + "\n")
        return 1
    sys.stdout.write(f"{count}\n")
    return 0


def _is_inside(cache: Any, repo: Any) -> bool:
    """Return whether a cache lies in the checkout; one elsewhere may be shared with other projects."""
    return bool(cache) and Path(cache.path).resolve().is_relative_to(Path(repo.root_dir).resolve())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
