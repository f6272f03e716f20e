"""Allow one run at a time in a checkout: DVC's locks cover a command, not a pipeline."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

LOCK = Path(".plumbline/run.lock")
RWLOCK = Path(".dvc/tmp/rwlock")
HERE = Path()
TIDYING = "tidying"
PATIENCE_S = 3600.0
"""How long a run waits for tidying to end, and how long for a holder to sign."""
SIGNING_S = 1.0
_kept: list[contextlib.AbstractContextManager[None]] = []


class CheckoutBusyError(Exception):
    """Another run is at work in this checkout."""


@contextlib.contextmanager
def alone(folder: Path = HERE, purpose: str = "") -> Iterator[None]:
    """Lock the checkout during the block; the kernel frees it if this process dies.

    Tidying takes a minute, and is waited for: a nightly run that meets it shall not fail.

    Args:
        folder: the checkout.
        purpose: `TIDYING`, or nothing.

    Raises:
        CheckoutBusyError: another process holds it; the message names its process number.
    """
    if _kept and folder == HERE:
        yield
        return
    lock = folder / LOCK
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+", encoding="utf-8") as stream:
        _take(stream, folder)
        stream.truncate(0)
        stream.write(f"{os.getpid()} {purpose}".strip())
        stream.flush()
        _forget_dead_owners(folder)
        yield


def keep() -> None:
    """Lock the checkout until this process ends; `alone` then lets in whatever follows in this process.

    Raises:
        CheckoutBusyError: another process holds it.
    """
    held = alone()
    held.__enter__()
    _kept.append(held)


def _take(stream: TextIO, folder: Path) -> None:
    begin, told = time.monotonic(), False
    while True:
        try:
            return fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            holder = stream.read().strip() or "unknown"
        # What stands there may be of the holder before, for the moment until the new one has signed.
        if time.monotonic() - begin > (PATIENCE_S if TIDYING in holder else SIGNING_S):
            raise CheckoutBusyError(
                f"Another run (process {holder}) is at work in {folder.resolve()}. Wait for it, or use a second clone."
            )
        if TIDYING in holder and not told:
            sys.stderr.write(f"Waiting until {folder.resolve()} is tidied (process {holder})\n")
            told = True
        time.sleep(0.1)


def _forget_dead_owners(folder: Path) -> None:
    """Remove DVC's list of busy paths if it has no running DVC on it.

    DVC drops an owner whose process number is free. It waits for ever for one whose number went to another
    process (a restarted container), and fails on a list that was cut short while being written.
    """
    owned = folder / RWLOCK
    try:
        content = json.loads(owned.read_text(encoding="utf-8"))
        owners = [
            *content.get("write", {}).values(),
            *(owner for many in content.get("read", {}).values() for owner in many),
        ]
        busy = any(_is_dvc(int(owner["pid"])) for owner in owners)
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError, AttributeError):
        busy = False  # not readable, by DVC neither
    if not busy:
        owned.unlink(missing_ok=True)


def _is_dvc(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return any(word.rsplit(b"/", 1)[-1] == b"dvc" for word in words)  # `python -m dvc` or `bin/dvc`, in any folder
    except OSError:
        return not Path("/proc/self").exists()  # without /proc nobody can be ruled out
