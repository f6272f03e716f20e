"""What a running system holds: memory of its processes, bytes and files of its folders."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import psutil

from tests.chaos.machines import Broken

PARTS = {
    "caches": ("**/.dvc/cache/",),
    "remote": (".dvc-remote/",),
    "registry": ("mlartifacts/", "mlflow.db"),
    "server's database": (".plumbline/system/prefect/",),
    "logs": (".plumbline/system/*.log",),
    "git": ("**/.git/",),
    "DVC's own": ("site/", "**/.dvc/tmp/"),
}
REST = "clones and the rest"
GROWS = "git"
"""The history of commits is nobody's to remove; it is shown, and has no bound."""


def memory(system: Broken) -> dict[str, float]:
    """MiB (resident) of the server and of all workers, and how many files the server has open."""
    found: defaultdict[str, float] = defaultdict(float)
    for pid, service in system.processes().items():
        name = "server" if service == "server" else "workers"
        try:
            process = psutil.Process(pid)
            found[f"{name} MiB"] += process.memory_info().rss / 2**20
            if service == "server":
                found["server's files"] += process.num_fds()
        except psutil.Error:
            continue
    return {key: round(value, 1) for key, value in found.items()}


def disk(folder: Path) -> dict[str, dict[str, float]]:
    """MiB and files, by part of the project's folder."""
    found: dict[str, dict[str, float]] = {name: {"MiB": 0.0, "files": 0} for name in (*PARTS, REST)}
    for place, _, files in os.walk(folder):
        for name in files:
            path = Path(place) / name
            part = _part(path.relative_to(folder).as_posix())
            try:
                found[part]["MiB"] += path.lstat().st_size / 2**20
            except FileNotFoundError:
                continue
            found[part]["files"] += 1
    return {name: {"MiB": round(row["MiB"], 2), "files": row["files"]} for name, row in found.items()}


def _part(path: str) -> str:
    for name, patterns in PARTS.items():
        for pattern in patterns:
            if pattern.startswith("**/"):
                inside = pattern[3:]
                if path.startswith(inside) or f"/{inside}" in path:
                    return name
            elif "*" in pattern:
                if Path(path).match(pattern):
                    return name
            elif path.startswith(pattern):
                return name
    return REST
