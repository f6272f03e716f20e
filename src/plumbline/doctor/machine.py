"""Check the disk, what dead processes left, and locks."""

from __future__ import annotations

import fcntl
import json
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from plumbline.core.extras import is_installed
from plumbline.core.files import TEMPORARY, is_dead
from plumbline.core.jobs import WORK
from plumbline.doctor.probes import Finding, Place, dvc_settings, fault, nearest, ok, size, unwritable, warning

LOCK = Path("dvc.lock")


def check_disk(place: Place) -> Iterator[Finding]:
    """Check that each disk has room for another run as large as the last one, plus `place.free_bytes`."""
    paths = {
        "temporary files": Path(tempfile.gettempdir()),
        "data": Path("data"),
        "portions and checkpoints": WORK,
        "registry": Path("mlartifacts"),
    }
    if Path(".dvc").is_dir():
        paths["DVC's cache"] = Path(".dvc/cache")
        if is_installed("dvc"):
            try:
                paths["DVC's cache"] = Path(dvc_settings(place.seconds).get("cache.dir") or ".dvc/cache")
            except OSError as error:
                yield warning(f"where DVC's cache lies is not known ({error})", "Correct .dvc/config.")
    made = last_run()
    disks: dict[int, list[str]] = {}
    for name, path in paths.items():
        disks.setdefault(nearest(path).stat().st_dev, []).append(name)
    for names in disks.values():
        for name in names:
            if why := unwritable(paths[name]):
                yield fault(
                    f"nothing can be written to {paths[name]} ({why})", "Let this user write there, or free the disk."
                )
        needed = made * len({"data", "DVC's cache"}.intersection(names))
        yield _judge(names, shutil.disk_usage(nearest(paths[names[0]])).free, needed, place.free_bytes)


def _judge(names: list[str], free: int, needed: int, least: int) -> Finding:
    estimate = f"as much as the last run made: {size(needed)}" if needed else "no run recorded, so no estimate"
    told = f"{size(free)} free for {', '.join(names)} ({estimate}; at least {size(least)} besides)"
    mend = "Free some: `python -m flows.tidy` removes what is no longer wanted; `du -sh .plumbline data` shows more."
    if free < needed + least:
        return fault(told, mend)
    return warning(told, f"Enough for one run. {mend}") if free < 2 * needed + least else ok(told)


def last_run() -> int:
    """Return the bytes that the stages wrote, from dvc.lock; 0 without that file."""
    try:
        content: Any = yaml.safe_load(LOCK.read_text(encoding="utf-8"))
        return sum(int(out.get("size", 0)) for stage in content["stages"].values() for out in stage.get("outs", []))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError, AttributeError, ValueError):
        return 0


_REMOVED = re.compile(r"^\.(.+)\.removed$")
"""As `plumbline.core.jobs` names what it is about to remove."""
WHERE = (".", "data", "data/*", "mlartifacts", f"{WORK}", f"{WORK}/*", f"{WORK}/*/*")


def check_leftovers(_: Place) -> Iterator[Finding]:
    """Find files of dead processes."""
    left = sorted({path for where in WHERE for path in Path().glob(f"{where}/.*") if _dead(path)})
    only = {path: whole for path in left if (whole := _only_copy_of(path)) is not None}
    for path, whole in only.items():
        yield warning(
            f"{path}: all there is of {whole}, from whose place a process that died had just taken it",
            f"`{shlex.join(['mv', str(path), str(whole)])}`, or make {whole} anew.",
        )
    if unfinished := [str(path) for path in left if path not in only]:
        more = f" and {len(unfinished) - 3} more" if len(unfinished) > 3 else ""
        yield warning(
            f"half-written, of processes that died: {', '.join(unfinished[:3])}{more}",
            f"`rm -r {shlex.join(unfinished)}`; nothing needs them.",
        )
    if not left:
        yield ok("nothing was left behind")


def _dead(path: Path) -> bool:
    return is_dead(path) or bool(_REMOVED.match(path.name))


def _only_copy_of(path: Path) -> Path | None:
    """Return the folder that `path` is the only copy of, if a process died while it replaced that folder."""
    told = TEMPORARY.match(path.name)
    whole = path.with_name(told[1]) if told and path.suffix == ".old" else None
    return None if whole is None or whole.exists() else whole


DVC_OWNERS = Path(".dvc/tmp/rwlock")


def check_locks(_: Place) -> Iterator[Finding]:
    """Report the locks that are held, and those that the next run would wait for without end."""
    found = [*filter(None, map(_holder, sorted(WORK.glob("*.lock")))), *_dvc_owners()]
    yield from found or [ok("nobody is at work here, and no lock is left")]


def _holder(path: Path) -> Finding | None:
    """Return who holds a lock. The kernel gives a lock back when its holder dies; the file alone holds nothing up."""
    try:
        with path.open("rb") as stream, suppress(BlockingIOError):
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        words = path.read_text(encoding="utf-8", errors="replace").split()
    except FileNotFoundError:  # its process has just ended
        return None
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
        readers = [owner for owners in content.get("read", {}).values() for owner in owners]
        pids = sorted({int(owner["pid"]) for owner in [*content.get("write", {}).values(), *readers]})
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
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    return any(word.rsplit(b"/", 1)[-1] == b"dvc" for word in words) or not Path("/proc/self").exists()
