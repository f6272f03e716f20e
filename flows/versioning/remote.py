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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flows.versioning import process
from flows.versioning.stage_runner import (
    BAD_INPUT,
    UNREACHABLE,
    Say,
    StageFailedError,
    UnreachableError,
)

LIMIT_S = 120.0
"""Largest number of seconds that a check may take."""
SILENT_S, PULSE_S = 120.0, 5.0
"""Seconds that a store may be silent in a push, and seconds between two questions to it
meanwhile."""
REFUSALS = {
    "NoCredentialsError",
    "PartialCredentialsError",
    "ProfileNotFound",
    "PermissionError",
    "NoAuthError",
}
"""Names of errors of stores that a later try meets again: the credentials are missing or
refused."""


def check(say: Say) -> None:
    """Write a small object into the remote, read it, and remove it.

    Raises:
        StageFailedError: no remote is configured, it refuses the credentials, or DVC lacks
            the means to speak to it.
        UnreachableError: it does not answer, or does not take or give back the object.
    """
    say(_run([], LIMIT_S, "DVC's remote"))


def push(stages: list[str], say: Say, limit_s: float | None = None) -> None:
    """Send the results of these stages, and the run-cache by which others find them.

    Raises:
        StageFailedError, UnreachableError: as `check`; not everything arrived.
    """
    say(f"dvc push: {_run(['dvc', 'push', '--run-cache', *stages], limit_s, 'dvc push')}")


def _run(arguments: list[str], limit_s: float | None, name: str) -> str:
    """Run this module in a process of its own, which can be ended; return the last line
    that it prints."""
    lines: list[str] = []
    try:
        command = [sys.executable, "-m", "flows.versioning.remote", *arguments]
        code = process.run(
            command, lines.append, limit_s=limit_s, environment=process.path_to_flows()
        )
    except process.TookTooLongError as error:
        raise UnreachableError(f"{name}: {error}", key="remote.too_long") from error
    last = lines[-1] if lines else "no output"
    if code == BAD_INPUT:
        raise StageFailedError(last, BAD_INPUT, key="remote.refused")
    if code:
        raise UnreachableError(f"{name}: {last}", key="remote.no_answer")
    return last


def main(arguments: list[str]) -> int:
    """Try the remote of the working directory, then run DVC in this process: `dvc repro
    ...`, or `dvc push ...`.

    The last line printed tells the end. Exit code: DVC's; `BAD_INPUT` without a remote, or
    where it refuses the credentials; `UNREACHABLE` where it does not answer.
    """
    from dvc.cli import main as dvc
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo() as repo:
            remote = repo.cloud.get_remote_odb()
    except (
        DvcException,
        ImportError,
    ) as error:  # no project, no remote, an unknown or uninstalled kind of remote
        _print(f"DVC's remote: {' '.join(str(error).split())}")
        return BAD_INPUT
    files = remote.fs
    place = files.join(*files.parts(remote.path)[:-2])
    try:
        stop_watching = _watch(files, place)
        with _probe(files, place):
            if not arguments:
                _print(f"DVC's remote {place} answers")
                return 0
            if "push" in arguments:
                return int(dvc(arguments[1:]))
        _pass_over_lost_results()
        stop_watching.set()  # a stage may be at work for hours without the store
        return int(dvc(arguments[1:]))
    except Exception as error:
        # Every kind of store fails in its own ways; each means that nothing can be handed over.
        reason = " ".join(str(error).split()) or type(error).__name__
        if _is_refusal(error):
            _print(
                f"DVC's remote {place} refuses the credentials of this machine: {reason}. Set "
                "them, then run again."
            )
            return BAD_INPUT
        _print(f"DVC's remote {place} does not answer: {reason}")
        return UNREACHABLE


def _is_refusal(error: BaseException | None) -> bool:
    """Return whether an error, or one that caused it, is a refusal of the credentials."""
    while error is not None:
        if type(error).__name__ in REFUSALS:
            return True
        error = error.__cause__ or error.__context__
    return False


def _pass_over_lost_results() -> None:
    """Remove stages from the lock of the working directory if their results are neither
    here nor in the remote.

    A commit's lock names results that may have gone to no remote. DVC takes them for the
    only ones, and does not look for another machine's in the run-cache.
    """
    from dvc.repo import Repo
    from dvc.stage import PipelineStage

    with Repo() as repo, repo.lock:
        remote = repo.cloud.get_remote_odb()
        for stage in repo.index.stages:
            if isinstance(stage, PipelineStage) and Path(stage.path).parent == Path.cwd():
                named = [
                    out.hash_info.value for out in stage.outs if out.use_cache and out.hash_info
                ]
                if not all(repo.cache.local.exists(name) or remote.exists(name) for name in named):
                    stage.dvcfile._lockfile.remove_stage(stage)


@contextlib.contextmanager
def _probe(files: Any, place: str) -> Iterator[None]:
    """Write and read an object, and see that it is still there after the block: else
    another store took its place."""
    if files.protocol == "local" and not files.isdir(place):
        raise FileNotFoundError("no such folder")  # DVC would make it, where a disk is not mounted
    probe = files.join(place, "probe", f"{socket.gethostname()}-{os.getpid()}")
    files.makedirs(files.parent(probe), exist_ok=True)
    files.pipe_file(probe, b"plumbline")
    if files.cat_file(probe) != b"plumbline":
        raise OSError("an object was not given back as it was sent")
    yield
    if not files.exists(probe):
        raise OSError(
            "it is not the store that it was: not mounted, moved away or emptied meanwhile"
        )
    files.rm_file(probe)


def _watch(files: Any, place: str) -> threading.Event:
    """End this process once the store has been silent for `SILENT_S`, until the returned
    event is set.

    DVC asks a bucket that is gone for each object anew, and again and again: hours for a
    folder of many files.
    """
    last_answer = time.monotonic()
    is_over = threading.Event()

    def ask() -> None:
        nonlocal last_answer
        while not is_over.wait(PULSE_S):
            with contextlib.suppress(
                Exception
            ):  # as in `main`: each kind of store fails in its own ways
                files.exists(place)
                last_answer = time.monotonic()

    def end_if_silent() -> None:
        while not is_over.wait(1):
            if time.monotonic() - last_answer > SILENT_S:
                _print(f"DVC's remote {place} does not answer: silent for {SILENT_S:.0f} s")
                sys.stdout.flush()
                os._exit(UNREACHABLE)

    for work in (ask, end_if_silent):
        threading.Thread(target=work, daemon=True).start()
    return is_over


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
