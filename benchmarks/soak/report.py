"""What a running system holds in memory and on disk; the verdict of a soak, and its page."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.common import head, line
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


MORE, MORE_MIB, MORE_FILES = 1.25, 20.0, 300
"""A bound: in the last quarter no more than in the second by this factor, with so much besides."""
COLUMNS = ("server MiB", "workers MiB", "server's files", "disk MiB", "disk files", "git MiB")


@dataclass(frozen=True)
class Bound:
    """One figure of the second quarter of the runs, and of the last."""

    name: str
    second: float
    last: float
    most: float

    @property
    def holds(self) -> bool:
        """Whether it does."""
        return self.last <= self.most


def figures(row: dict[str, Any]) -> dict[str, float]:
    """The columns of one sample."""
    parts = [part for name, part in row["disk"].items() if name != GROWS]
    return row["memory"] | {
        "disk MiB": round(sum(part["MiB"] for part in parts), 1),
        "disk files": sum(part["files"] for part in parts),
        "git MiB": row["disk"][GROWS]["MiB"],
    }


def bounds(rows: Sequence[dict[str, Any]], runs: int) -> list[Bound]:
    """The most of each figure right after tidying, in the last quarter of the runs beside the second."""
    found = []
    samples = [row | figures(row) for row in rows if row["tidied"]]
    for name in COLUMNS[:-1]:
        second, last = (
            max((row[name] for row in samples if low * runs < row["run"] <= high * runs), default=float("nan"))
            for low, high in ((0.25, 0.5), (0.75, 1.0))
        )
        found.append(Bound(name, second, last, second * MORE + (MORE_FILES if "files" in name else MORE_MIB)))
    return found


def page(rows: Sequence[dict[str, Any]], runs: int, about: str) -> str:
    """The page, in Markdown."""
    shown = [row for row in rows if row["tidied"]]
    step = max(1, len(shown) // 20)
    shown = [*shown[::step], *shown[-1:]] if (len(shown) - 1) % step else shown[::step]
    last = rows[-1]["disk"]
    return "\n".join(
        [
            f"# {runs} small pipelines, one after the other",
            "",
            about,
            "",
            f"All {len(rows)} completed; {median(row['seconds'] for row in rows):.0f} s each (median), tidying "
            f"{median(row['tidying_s'] for row in rows if row['tidied']):.0f} s.",
            "",
            *_table(
                ["most right after tidying", "second quarter", "last quarter", "bound", "holds"],
                [
                    [one.name, f"{one.second:g}", f"{one.last:g}", f"{one.most:.0f}", "yes" if one.holds else "**no**"]
                    for one in bounds(rows, runs)
                ],
            ),
            "",
            f"A bound is {MORE:g} times the second quarter's, and {MORE_MIB:g} MiB or {MORE_FILES} files besides; "
            "git's history has none.",
            "",
            *_table(
                ["run", "seconds", *COLUMNS],
                [
                    [str(row["run"]), f"{row['seconds']:.0f}", *(f"{figures(row).get(name, 0):g}" for name in COLUMNS)]
                    for row in shown
                ],
            ),
            "",
            "At the end:",
            "",
            *_table(
                ["part", "MiB", "files"],
                [[name, f"{part['MiB']:g}", f"{part['files']:g}"] for name, part in last.items()],
            ),
            "",
        ]
    )


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    return [head(*heads), *(line(*row) for row in rows)]
