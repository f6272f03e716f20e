"""One run at a time in one checkout: DVC's locks cover a command, not a pipeline."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

LOCK = Path(".plumbline/run.lock")
RWLOCK = Path(".dvc/tmp/rwlock")
_kept: list[contextlib.AbstractContextManager[None]] = []


class CheckoutBusyError(Exception):
    """Another run is at work in this checkout."""


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold the checkout for the block; the kernel gives it back if this process dies.

    Raises:
        CheckoutBusyError: another process holds it; the message names its process number.
    """
    if _kept:
        yield
        return
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            holder = stream.read().strip() or "unknown"
            raise CheckoutBusyError(
                f"Another run (process {holder}) is at work in {Path.cwd()}. Wait for it, or use a second clone."
            ) from None
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        _forget_dead_owners()
        yield


def keep() -> None:
    """Hold the checkout until this process ends; `alone` then lets in whatever follows in this process.

    Raises:
        CheckoutBusyError: another process holds it.
    """
    held = alone()
    held.__enter__()
    _kept.append(held)


def _forget_dead_owners() -> None:
    """Remove DVC's list of busy paths where nobody on it is a running DVC.

    DVC drops an owner whose process number is free. It waits for ever for one whose number went to another
    process (a restarted container), and fails on a list that was cut short while being written.
    """
    try:
        content = json.loads(RWLOCK.read_text(encoding="utf-8"))
        owners = [*content["write"].values(), *(owner for many in content["read"].values() for owner in many)]
        if any(_is_dvc(int(owner["pid"])) for owner in owners):
            return
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # not readable, by DVC neither
    RWLOCK.unlink(missing_ok=True)


def _is_dvc(pid: int) -> bool:
    try:
        return b"dvc" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return not Path("/proc/self").exists()  # without /proc nobody can be ruled out
