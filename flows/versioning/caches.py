"""Remove from DVC's caches and remote what is not needed any more.

DVC's own `gc` keeps what commits name. Workers make results that no commit names and find them by the run-cache, so
here its newest entries count too. An entry's own date says nothing, since every push and pull writes it anew; that of
the files it names does.

`python -m flows.versioning.caches ASKED`, with ASKED in JSON, in a process of its own: a store that is down is waited
for at length, and this can be ended.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from flows.versioning import process
from flows.versioning.stage_runner import BAD_INPUT, StageFailedError, UnreachableError
from flows.versioning.stores import Entry, Store, local_store, remote_store

LIMIT_S = 1800.0


@dataclass(frozen=True)
class Asked:
    """Folders to tidy, and how much stays."""

    folders: list[str]
    """Checkouts, each held by whoever asks."""
    keep: int
    """Newest results of each stage that stay in each store."""
    dry_run: bool = False
    remote: bool = False
    """The default remote of the first folder, too."""
    days: float = 30.0
    """What came into the remote since stays there: its commit may not be pushed yet."""


@dataclass(frozen=True)
class Removed:
    """Objects and entries of one store that were removed, or would be."""

    store: str
    objects: int
    bytes: int


@dataclass
class Wanted:
    """Objects and entries that must stay, whatever their age."""

    objects: set[str] = field(default_factory=set)
    """Hashes of files and folders that commits or the present state of a checkout name."""
    entries: set[str] = field(default_factory=set)
    """Names of the run-cache's entries for the present results of a checkout."""


def tidy(asked: Asked) -> list[Removed]:
    """Remove what is not needed, in a process with a time limit; the store stays intact even if that is reached.

    Raises:
        UnreachableError: it took too long.
        StageFailedError: something could not be read, so nothing was removed of that store.
    """
    said: list[str] = []
    try:
        command = [sys.executable, "-m", "flows.versioning.caches", json.dumps(asdict(asked))]
        code = process.run(command, said.append, limit_s=LIMIT_S)
    except process.TookTooLongError as error:
        raise UnreachableError(f"tidying DVC's stores: {error}") from error
    told = said[-1] if said else "no output"
    if code:
        raise StageFailedError(f"DVC's stores were not tidied: {told}", BAD_INPUT if code == BAD_INPUT else 1)
    return [Removed(**one) for one in json.loads(told)]


def unwanted(store: Store, wanted: Wanted, keep: int, before: float = math.inf) -> tuple[list[Entry], list[str]]:
    """Return the entries of the run-cache and the hashes of objects that can go.

    Args:
        store: a cache or a remote. wanted: what must stay. keep: newest results of each stage that stay besides.
        before: what came into the store from then on stays too, seconds since 1970.
    """
    stays: set[str] = set()
    for entries in _by_stage(store.entries).values():
        there = [(when, entry) for entry in entries if (when := _made(store, entry)) is not None]
        there.sort(key=lambda pair: (-pair[0], pair[1].name))
        stays |= {entry.name for _, entry in there[:keep]} | {entry.name for when, entry in there if when >= before}
    stays |= wanted.entries
    # DVC passes over the list of a folder that it could not fetch; here its lack is an error.
    objects = set(_inside(store, wanted.objects))
    for entry in store.entries:
        if entry.name in stays:
            objects |= set(_inside(store, entry.outs))
    going = [entry for entry in store.entries if entry.name not in stays]
    old = (one for one, stored in store.objects.items() if stored.changed < before)
    return going, sorted(set(old) - objects)


def _by_stage(entries: Iterable[Entry]) -> dict[tuple[bool, tuple[str, ...]], list[Entry]]:
    """Group entries by stage, that is by output paths and folder: the run-cache does not name it."""
    found: dict[tuple[bool, tuple[str, ...]], list[Entry]] = {}
    for entry in entries:
        found.setdefault((entry.below, entry.paths), []).append(entry)
    return found


def _made(store: Store, entry: Entry) -> float | None:
    """Return when the files of an entry came into the store; None if some are missing."""
    times = [store.objects[out].changed for out in entry.outs if out in store.objects]
    return max(times) if times and len(times) == len(entry.outs) else None


def _inside(store: Store, outs: Iterable[str]) -> Iterator[str]:
    """Yield the objects and, for folders in the store, the files in them."""
    for out in outs:
        yield out
        if out.endswith(".dir") and out in store.objects:
            yield from (str(item["md5"]) for item in json.loads(store.read(store.objects[out].path)))


def wanted_of(repo: Any) -> Wanted:
    """Return what the commits and the present state of a checkout refer to.

    These are all references of branches, tags and experiments, and added data of any commit: results of a stage can be
    made again, data cannot.
    """
    from dvc.stage import PipelineStage
    from dvc.stage.cache import _get_cache_hash
    from dvc.stage.serialize import to_single_stage_lockfile

    found = Wanted()
    data = _with_data(Path(repo.root_dir))
    # By force: what a folder holds whose list of files is neither here nor in the remote, DVC cannot bring back either.
    named = repo.used_objs(all_branches=True, all_tags=True, all_experiments=True, revs=data, force=True)
    for hashes in named.values():
        found.objects |= {one.value for one in hashes if one.name == "md5"}
    for stage in repo.index.stages:
        # As dvc.lock has it, whatever lies in the folders now.
        made = stage.deps and stage.outs and all(one.hash_info for one in (*stage.deps, *stage.outs))
        if isinstance(stage, PipelineStage) and made:
            locked = [to_single_stage_lockfile(stage) for _ in range(2)]
            key, value = _get_cache_hash(locked[0], key=True), _get_cache_hash(locked[1])
            found.entries.add(f"{key}/{value}")
    return found


def _with_data(folder: Path) -> list[str]:
    """List commits that changed a `.dvc` file: together they name every version of all data ever added."""
    said: list[str] = []
    command = ["git", "-C", str(folder), "log", "--all", "--full-history", "--format=%H", "--", "*.dvc"]
    if process.run(command, said.append, limit_s=LIMIT_S):
        raise StageFailedError(f"git log: {' '.join(said)}", BAD_INPUT)
    return [line for line in said if re.fullmatch(r"[0-9a-f]{40}", line)]


def _fetch(folder: Path) -> None:
    """Fetch all commits of the origin, since what they name in the remote must stay.

    Raises:
        StageFailedError: git cannot.
    """
    said: list[str] = []
    if process.run(["git", "-C", str(folder), "fetch", "--all", "--tags", "--quiet"], said.append, limit_s=LIMIT_S):
        raise StageFailedError(f"git fetch: {' '.join(said)}", BAD_INPUT)


def _tidied(store: Store, wanted: Wanted, asked: Asked, before: float = math.inf) -> Removed:
    entries, objects = unwanted(store, wanted, asked.keep, before)
    size = sum(store.objects[one].bytes for one in objects)
    if not asked.dry_run:
        store.remove(entries, objects)
    return Removed(store.name, len(objects), size)


def tidy_here(asked: Asked) -> list[Removed]:
    """Do `tidy` in this process.

    Raises:
        DvcException: DVC could not read something, so nothing was removed of that store.
    """
    from dvc.repo import Repo

    removed, everything = [], Wanted()
    if asked.remote:
        _fetch(Path(asked.folders[0]))
    for folder in asked.folders:
        with Repo(folder) as repo, repo.lock:
            own = wanted_of(repo)
            everything.objects |= own.objects
            everything.entries |= own.entries
            store = local_store(repo)
            if store is not None:
                removed.append(_tidied(store, own, asked))
    if asked.remote:
        with Repo(asked.folders[0]) as repo, repo.lock:
            removed.append(_tidied(remote_store(repo), everything, asked, time.time() - asked.days * 86_400))
    return removed


def main(arguments: list[str]) -> int:
    """Tidy as the argument says, in JSON; the last line of output is the result."""
    from dvc.exceptions import DvcException

    try:
        removed = tidy_here(Asked(**json.loads(arguments[0])))
    except StageFailedError as error:
        sys.stdout.write(f"{error}\n")
        return error.exit_code
    except DvcException as error:
        told = " ".join(f"{error}: {error.__cause__ or ''}".split())
        sys.stdout.write(f"{told}\n")
        return 1
    sys.stdout.write(json.dumps([asdict(one) for one in removed]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
