"""Check DVC's remote, by which machines exchange results, and send to it.

DVC itself passes over a remote that does not answer, and computes anew; so it is asked beforehand.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from flows.versioning import dvc_process, process
from flows.versioning.stage_runner import BAD_INPUT, UNREACHABLE, Say, StageFailedError, UnreachableError

LIMIT_S = 120.0
SILENT_S, PULSE_S = 120.0, 5.0
"""How long a store may be silent while it is tried and in a push, and how often it is asked meanwhile."""
MARKS = "plumbline-marks"
"""Folder with a file of its own name for each machine that found a store without one: copied together, none is lost."""
SEEN = Path(".dvc/tmp/plumbline-store")
"""Where a clone notes the store in which it has seen the mark; below its root."""


def check(say: Say) -> None:
    """Write a small object into the remote, read it, and remove it.

    Raises:
        StageFailedError: no remote is configured, or DVC lacks the means to speak to it.
        UnreachableError: it does not answer, or does not take or give back the object.
    """
    said: list[str] = []
    try:
        # In a process of its own, because a store that is down is waited for at length, and this can be ended.
        code = dvc_process.run("flows.versioning.remote", [], said.append, limit_s=LIMIT_S)
    except process.TookTooLongError as error:
        raise UnreachableError(f"DVC's remote does not answer: {error}") from error
    told = said[-1] if said else "no output"
    if code == BAD_INPUT:
        raise StageFailedError(told, BAD_INPUT)
    if code:
        raise UnreachableError(told)
    say(told)


def push(stages: list[str], say: Say, limit_s: float | None = None) -> None:
    """Send the results of these stages, and the run-cache by which others find them.

    Raises:
        UnreachableError: not everything arrived.
    """
    said: list[str] = []
    try:
        command = ["dvc", "push", "--run-cache", *stages]
        code = dvc_process.run("flows.versioning.remote", command, said.append, limit_s=limit_s)
    except process.TookTooLongError as error:
        raise UnreachableError(f"dvc push: {error}") from error
    if code:
        raise UnreachableError(f"dvc push: {said[-1] if said else 'no output'}")
    say(f"dvc push: {said[-1] if said else 'done'}")


def main(arguments: list[str]) -> int:
    """Try the remote of the working directory, then run DVC in this process: `dvc repro ...`, or `dvc push ...`.

    The last line printed tells the end. Exit code: DVC's; `BAD_INPUT` without a remote; `UNREACHABLE` where it does not
    answer.
    """
    from dvc.cli import main as dvc
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo() as repo:
            remote = repo.cloud.get_remote_odb()
    except (DvcException, ImportError) as error:  # no project, no remote, an unknown or uninstalled kind of remote
        _print(f"DVC's remote: {' '.join(str(error).split())}")
        return BAD_INPUT
    files, root = remote.fs, remote.fs.parts(remote.path)[:-2]
    place = files.join(*root)
    try:
        watched = _watch(files, place)
        _try(files, place)
        if not arguments:
            _print(f"DVC's remote {place} answers")
            return 0
        if "push" not in arguments:
            _pass_over_lost_results()
            watched.set()  # a stage may be at work for hours without the store
        code: int = dvc(arguments[1:])
        if "push" in arguments:
            _see_mark(files, place)
        return code
    except Exception as error:  # every kind of store fails in its own ways; each means that nothing can be handed over
        _print(f"DVC's remote {place} does not answer: {' '.join(str(error).split()) or type(error).__name__}")
        return UNREACHABLE


def _pass_over_lost_results() -> None:
    """Remove stages from the lock of the working directory if their results are neither here nor in the remote.

    A commit's lock names results that may have gone to no remote. DVC takes them for the only ones, and does not look
    for another machine's in the run-cache.
    """
    from dvc.repo import Repo
    from dvc.stage import PipelineStage

    with Repo() as repo, repo.lock:
        remote = repo.cloud.get_remote_odb()
        for stage in repo.index.stages:
            if isinstance(stage, PipelineStage) and Path(stage.path).parent == Path.cwd():
                named = [out.hash_info.value for out in stage.outs if out.use_cache and out.hash_info]
                if not all(repo.cache.local.exists(one) or remote.exists(one) for one in named):
                    stage.dvcfile._lockfile.remove_stage(stage)


def _try(files: Any, place: str) -> None:
    """Write, read and remove an object; leave a mark if this clone sees the store for the first time."""
    if files.protocol == "local" and not files.isdir(place):
        raise FileNotFoundError("no such folder")
    if _seen(place) is not None:
        _see_mark(files, place)
    probe = files.join(place, "probe", f"{socket.gethostname()}-{os.getpid()}")
    files.makedirs(files.parent(probe), exist_ok=True)
    files.pipe_file(probe, b"plumbline")
    if files.cat_file(probe) != b"plumbline":
        raise OSError("an object was not given back as it was sent")
    files.rm_file(probe)
    marks = files.join(place, MARKS)
    found = sorted(files.find(marks)) if files.exists(marks) else []
    mark = files.parts(found[0])[-1] if found else str(uuid4())
    if not found:
        files.makedirs(marks, exist_ok=True)
        files.pipe_file(files.join(marks, mark), b"Plumbline hands results over here.\n")
    note = _note()
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(f"{place}\n{mark}", encoding="utf-8")


def _note() -> Path:
    """Return the clone's note in the root, since a `.dvc` in a family's folder would make that a DVC project."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / SEEN.parts[0]).is_dir()), here) / SEEN


def _seen(place: str) -> str | None:
    """Return the mark that this clone has seen in a store."""
    note = _note()
    if not note.exists():
        return None
    at, _, mark = note.read_text(encoding="utf-8").partition("\n")
    return mark if at == place and mark else None


def _see_mark(files: Any, place: str) -> None:
    """Refuse a store without its mark: DVC would recreate a lost folder in the middle of a push.

    A machine that is new to the store would mark it again, so each mark is unique.
    """
    mark = _seen(place)
    if mark is None or not files.exists(files.join(place, MARKS, mark)):
        raise OSError(
            f"it is not the store that it was (not in {MARKS}: {mark}): not mounted, moved away, or emptied. Bring it "
            f"back, with what may lie there by now; or, where a new one is meant, remove {SEEN} in each clone"
        )


def _watch(files: Any, place: str) -> threading.Event:
    """End this process once the store has been silent for `SILENT_S`, until the event is set.

    DVC asks a bucket that is gone for each object anew, and again and again: hours for a folder of many files.
    """
    heard = time.monotonic()
    enough = threading.Event()

    def ask() -> None:
        nonlocal heard
        while not enough.wait(PULSE_S):
            with contextlib.suppress(Exception):
                _see_mark(files, place)
                heard = time.monotonic()

    def judge() -> None:
        while not enough.wait(1):
            if time.monotonic() - heard > SILENT_S:
                _print(f"DVC's remote {place} does not answer: silent for {SILENT_S:.0f} s")
                sys.stdout.flush()
                os._exit(UNREACHABLE)

    for work in (ask, judge):
        threading.Thread(target=work, daemon=True).start()
    return enough


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
