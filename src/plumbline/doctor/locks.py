"""Check the locks: which processes work in the checkout, and what dead processes still block."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from pathlib import Path

from plumbline.core.jobs import WORK
from plumbline.doctor.finding import Finding, Place, fault, ok, warning

DVC_OWNERS = Path(".dvc/tmp/rwlock")
SERVER = WORK / "server.pid"


def check_locks(_: Place) -> Iterator[Finding]:
    """Report locks that are held, and locks and servers left by dead processes."""
    at_work = False
    for path in sorted(WORK.glob("*.lock")):
        try:
            if not _held(path):
                continue  # the kernel gives a lock back when its holder dies; the file alone holds nothing up
            holder = _holder(path)
        except FileNotFoundError:  # its process has just ended
            continue
        at_work = True
        yield holder
    for finding in _dvc_owners():
        at_work = True
        yield finding
    if not at_work:
        for pid in _servers():
            at_work = True
            yield warning(
                f"process {pid}, the embedded Prefect server of a run that was killed, is still there",
                f"`kill {pid}`; the next run ends it too.",
            )
    if not at_work:
        yield ok("nobody is at work here, and no lock is left")


def _held(path: Path) -> bool:
    with path.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(stream, fcntl.LOCK_UN)
    return False


def _holder(path: Path) -> Finding:
    words = path.read_text(encoding="utf-8", errors="replace").split()
    named = words[0] if words else ""  # what follows is its purpose
    if not named.isdigit() or _alive(int(named)):
        return ok(f"a run is at work here: {path}{f', process {named}' if named else ''}")
    # It was started by the dead one, and has the file open from it.
    open_by = ", ".join(str(pid) for pid in _having_open(path)) or "one that this user cannot see"
    return fault(
        f"{path} is held by process {open_by}, left by process {named}, which is dead",
        f"End it: `kill {open_by}`. No run starts here before.",
    )


def _dvc_owners() -> Iterator[Finding]:
    """Check the owners in DVC's list of busy paths: DVC waits forever for a number that another process has now."""
    mend = f"`rm {DVC_OWNERS}` once no DVC is at work here; `make run` does so by itself."
    try:
        content = json.loads(DVC_OWNERS.read_text(encoding="utf-8"))
        owners = [
            *content.get("write", {}).values(),
            *(item for many in content.get("read", {}).values() for item in many),
        ]
        pids = sorted({int(owner["pid"]) for owner in owners})
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError, AttributeError):
        yield fault(f"{DVC_OWNERS} was cut short: DVC fails on it", mend)
        return
    for pid in pids:
        if _is_dvc(pid):
            yield ok(f"DVC is at work here: process {pid}")
        elif _alive(pid):
            yield fault(f"{DVC_OWNERS} names process {pid}, which is no DVC: DVC waits for it without end", mend)
        else:
            yield warning(f"{DVC_OWNERS} names process {pid}, which is dead", mend)


def _servers() -> Iterator[int]:
    try:
        pids = [int(text) for text in SERVER.read_text(encoding="utf-8").split()]
    except (OSError, ValueError):
        return
    yield from (pid for pid in pids if b"prefect.server" in _command(pid))


def _having_open(path: Path) -> Iterator[int]:
    wanted = path.resolve()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(entry.resolve() == wanted for entry in (process / "fd").iterdir()):
                yield int(process.name)
        except OSError:
            continue


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() or not Path("/proc/self").exists()


def _is_dvc(pid: int) -> bool:
    # `python -m dvc` or `bin/dvc`, as a run has it: a folder of that name makes no DVC.
    words = _command(pid).split(b"\0")
    return any(word.rsplit(b"/", 1)[-1] == b"dvc" for word in words) or not Path("/proc/self").exists()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
