"""DVC's remote, by which machines hand results to each other: whether it answers, and sending to it.

DVC itself passes over a remote that does not answer, and computes anew; so it is asked beforehand.
"""

from __future__ import annotations

import os
import socket
import sys

from flows import process
from flows.stages import BAD_INPUT, Say, StageFailedError, UnreachableError

LIMIT_S = 120.0


def check(say: Say) -> None:
    """Write a small object into the remote, read it, and remove it.

    Raises:
        StageFailedError: no remote is configured, or DVC lacks the means to speak to it.
        UnreachableError: it does not answer, or does not take or give back the object.
    """
    said: list[str] = []
    try:
        # In a process of its own, because a store that is down is waited for at length, and this can be ended.
        code = process.run([sys.executable, "-m", "flows.remote"], said.append, limit_s=LIMIT_S)
    except process.TookTooLongError as error:
        raise UnreachableError(f"DVC's remote does not answer: {error}") from error
    told = said[-1] if said else "no output"
    if code == BAD_INPUT:
        raise StageFailedError(told, BAD_INPUT)
    if code:
        raise UnreachableError(told)
    say(told)


def push(stages: list[str], say: Say, limit_s: float | None = None) -> None:
    """Send what these stages made, and the run-cache by which others find it.

    Raises:
        UnreachableError: not everything arrived.
    """
    said: list[str] = []
    try:
        command = [sys.executable, "-m", "dvc", "push", "--run-cache", *stages]
        code = process.run(command, said.append, limit_s=limit_s)
    except process.TookTooLongError as error:
        raise UnreachableError(f"dvc push: {error}") from error
    if code:
        raise UnreachableError(f"dvc push: {said[-1] if said else 'no output'}")
    say(f"dvc push: {said[-1] if said else 'done'}")


def main() -> int:
    """Try the remote of the working directory; print one line."""
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
        if files.protocol == "local" and not files.isdir(place):
            raise FileNotFoundError("no such folder")
        probe = files.join(place, "probe", f"{socket.gethostname()}-{os.getpid()}")
        files.makedirs(files.parent(probe), exist_ok=True)
        files.pipe_file(probe, b"plumbline")
        if files.cat_file(probe) != b"plumbline":
            raise OSError("an object was not given back as it was sent")
        files.rm_file(probe)
    except Exception as error:  # every kind of store fails in its own ways; each means that nothing can be handed over
        _print(f"DVC's remote {place} does not answer: {' '.join(str(error).split()) or type(error).__name__}")
        return 1
    _print(f"DVC's remote {place} answers")
    return 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
