"""Check the free space on each disk that a run writes to, and find what abandoned runs left there."""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from plumbline.core.extras import is_installed
from plumbline.core.files import KEPT_SECONDS, TEMPORARY, is_dead
from plumbline.core.jobs import WORK
from plumbline.doctor.finding import Finding, Place, fault, ok, size, warning
from plumbline.doctor.probes import dvc_cache, dvc_settings, files, nearest, unwritable

LOCK = Path("dvc.lock")


def check_disk(place: Place) -> Iterator[Finding]:
    """Check that each disk has room for another run as large as the last one, plus `place.free_bytes`."""
    settings: dict[str, str] = {}
    if Path(".dvc").is_dir() and is_installed("dvc"):
        try:
            settings = dvc_settings(place.seconds)
        except OSError as error:
            yield warning(f"where DVC's cache lies is not known ({error})", "Correct .dvc/config.")
    made = last_run()
    whole, package = sum(made.values()), made.get("package", 0)
    linked = settings.get("cache.type", "").split(",")[0] in ("hardlink", "symlink", "reflink")
    needs = {
        "temporary files": (Path(tempfile.gettempdir()), 0),
        "data": (Path("data"), 0 if linked else whole),
        "portions and checkpoints": (Path(".plumbline"), made.get("ingest", 0) + made.get("prepare", 0)),
        "registry": (Path("mlartifacts"), package),
    }
    if Path(".dvc").is_dir():
        needs["DVC's cache"] = (dvc_cache(settings), whole)
    disks: dict[int, list[str]] = {}
    for name, (path, _) in needs.items():
        disks.setdefault(nearest(path).stat().st_dev, []).append(name)
    for names in disks.values():
        paths = [needs[name][0] for name in names]
        for path in paths:
            if why := unwritable(path):
                yield fault(f"nothing can be written to {path} ({why})", "Let this user write there, or free the disk.")
        yield _judge(names, nearest(paths[0]), sum(needs[name][1] for name in names), place.free_bytes, bool(made))


def _judge(names: list[str], path: Path, needed: int, least: int, known: bool) -> Finding:
    free = shutil.disk_usage(path).free
    estimate = f"as much as the last run made: {size(needed)}" if known else "no run recorded, so no estimate"
    told = f"{size(free)} free for {', '.join(names)} ({estimate}; at least {size(least)} besides)"
    mend = "Free some: `python -m flows.tidy` removes what is no longer wanted; `du -sh .plumbline data` shows more."
    if free < needed + least:
        return fault(told, mend)
    return warning(told, f"Enough for one run. {mend}") if free < 2 * needed + least else ok(told)


def last_run() -> dict[str, int]:
    """Return the bytes that each stage wrote, from dvc.lock; empty without that file."""
    try:
        content: Any = yaml.safe_load(LOCK.read_text(encoding="utf-8"))
        return {
            name: sum(int(out.get("size", 0)) for out in stage.get("outs", []))
            for name, stage in content["stages"].items()
        }
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError, AttributeError, ValueError):
        return {}


_REMOVED = re.compile(r"^\.(.+)\.removed$")
"""As `plumbline.core.jobs` names what it is about to remove."""
WHERE = (".", "data", "data/*", "mlartifacts", f"{WORK}", f"{WORK}/*", f"{WORK}/*/*")
GONE_ON_WITH = ("checkpoints", "ingest", "prepare", "score", "search")
"""Below `.plumbline`: trainings and portions, which can be made again. Other folders hold what cannot: Prefect's
database, files of MLflow and of released packages, what a retraining puts back."""


def check_leftovers(_: Place) -> Iterator[Finding]:
    """Find files of dead processes, and portions and checkpoints that were not continued for a week."""
    unfinished = sorted({path for where in WHERE for path in Path().glob(f"{where}/.*") if _dead(path)})
    only = {path: whole for path in unfinished if (whole := _only_copy_of(path)) is not None}
    unfinished = [path for path in unfinished if path not in only]
    for path, whole in only.items():
        yield warning(
            f"{path}: all there is of {whole}, from whose place a process that died had just taken it",
            f"`{shlex.join(['mv', str(path), str(whole)])}`, or make {whole} anew.",
        )
    found = (path for name in GONE_ON_WITH for path in sorted((WORK / name).glob("[!.]*")))
    kept = [path for path in found if path.is_dir()]
    old = [path for path in kept if time.time() - _changed(path) > KEPT_SECONDS]
    for paths, what in ((unfinished, "half-written, of processes that died"), (old, "not touched for a week")):
        if paths:
            more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
            shown = ", ".join(map(str, paths[:3]))
            yield warning(
                f"{what}: {shown}{more}; {size(_bytes(paths))}",
                f"`rm -r {shlex.join(map(str, paths))}`; nothing needs them.",
            )
    if not (unfinished or only or old):
        going_on = f"; {len(kept)} folders in {WORK} that a run may go on from, {size(_bytes(kept))}" if kept else ""
        yield ok(f"nothing was left behind{going_on}")


def _dead(path: Path) -> bool:
    return is_dead(path) or bool(_REMOVED.match(path.name))


def _only_copy_of(path: Path) -> Path | None:
    """Return the folder that `path` is the only copy of, if a process died while it replaced that folder."""
    told = TEMPORARY.match(path.name)
    whole = path.with_name(told[1]) if told and path.suffix == ".old" else None
    return None if whole is None or whole.exists() else whole


def _changed(folder: Path) -> float:
    return max([folder.stat().st_mtime, *(about.st_mtime for _, about in files(folder, seconds=1.0))])


def _bytes(paths: list[Path]) -> int:
    return sum(about.st_size for path in paths for _, about in files(path, seconds=1.0))
