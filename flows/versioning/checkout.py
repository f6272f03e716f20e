"""Allow one run at a time in a checkout: DVC's locks cover a command, not a pipeline."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from flows.versioning.stage_runner import BAD_INPUT, StageFailedError

LOCK, HOLDER = Path(".plumbline/run.lock"), Path(".plumbline/run.holder")
"""Lock of a checkout, and the file in which its holder signs."""
RWLOCK = Path(".dvc/tmp/rwlock")
HERE = Path()
TIDYING = "tidying"
PATIENCE_S, TIDYING_S = 1.0, 3600.0
"""Seconds that a run waits for another to end, and for tidying."""
_kept: list[contextlib.AbstractContextManager[None]] = []


class CheckoutBusyError(StageFailedError):
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
    holder = folder / HOLDER
    holder.parent.mkdir(parents=True, exist_ok=True)
    with _taken(folder, holder):
        holder.write_text(f"{os.getpid()} {purpose}".strip(), encoding="utf-8")
        _forget_dead_owners(folder)
        yield


def keep() -> None:
    """Lock the checkout until this process ends; `alone` then lets in whatever follows in
    this process.

    Raises:
        CheckoutBusyError: another process holds it.
    """
    held = alone()
    held.__enter__()
    _kept.append(held)


def _taken(folder: Path, holder: Path) -> contextlib.AbstractContextManager[object]:
    begin = time.monotonic()
    while True:
        try:
            return FileLock(folder / LOCK).acquire(timeout=PATIENCE_S, poll_interval=0.1)
        except Timeout:
            owner = holder.read_text(encoding="utf-8") if holder.exists() else "unknown"
        if TIDYING not in owner or time.monotonic() - begin > TIDYING_S:
            raise CheckoutBusyError(
                f"Another run (process {owner}) is at work in {folder.resolve()}. Wait for it, "
                "or use a second clone.",
                BAD_INPUT,
                key="checkout.busy",
            )


def _forget_dead_owners(folder: Path) -> None:
    """Remove DVC's list of busy paths if it has no running DVC on it.

    DVC drops an owner whose process number is free. It waits for ever for one whose number
    went to another process (a restarted container), and fails on a list that was cut short
    while being written.
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
        # `python -m dvc` or `bin/dvc`, in any folder.
        return any(word.rsplit(b"/", 1)[-1] == b"dvc" for word in words)
    except OSError:
        return not Path("/proc/self").exists()  # without /proc nobody can be ruled out
