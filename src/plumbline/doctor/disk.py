"""Disks: room for another run, wherever a run writes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from plumbline.doctor.finding import Finding, Place, fault, ok, size, warning
from plumbline.doctor.folders import dvc_cache, dvc_settings, nearest, unwritable

LOCK = Path("dvc.lock")


def check_disk(place: Place) -> Iterator[Finding]:
    """Every disk that a run writes to has room for what the last run made, and `place.free_bytes` besides."""
    settings: dict[str, str] = {}
    if Path(".dvc").is_dir():
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
    """Stage -> bytes that it made, as dvc.lock has them; empty without one."""
    try:
        content: Any = yaml.safe_load(LOCK.read_text(encoding="utf-8"))
        return {
            name: sum(int(out.get("size", 0)) for out in stage.get("outs", []))
            for name, stage in content["stages"].items()
        }
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError, AttributeError, ValueError):
        return {}
