"""Record a run: its inputs, its machine, its results, and its curve as a file."""

from __future__ import annotations

import csv
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plumbline.core.extras import is_installed
from plumbline.core.files import atomic_file
from plumbline.train.monitor.memory import total_bytes

PACKAGES = ("torch", "lightning", "numpy")


def begin_record(parameters: Mapping[str, int], key: str, data_sha256: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that are known before the first step.

    Args:
        parameters: how many there are, by part of the network.
        key: of the run: the hash of its data, settings and other inputs.
        data_sha256: of the data alone.
        settings: sections of the params file.
    """
    return {
        "run_key": key,
        "data_sha256": data_sha256,
        "git": git_commit(Path.cwd()),
        "params": settings,
        "parameters": dict(parameters),
        **surroundings(),
    }


def surroundings() -> dict[str, Any]:
    """Return the `hardware` of a run, and the `versions` of the packages behind its numbers."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"hardware": hardware(), "versions": {"python": platform.python_version(), **versions}}


def git_commit(folder: Path) -> dict[str, Any] | None:
    """Return the checked-out commit, and whether its files were changed; None outside a repository."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return None


def hardware() -> dict[str, Any]:
    """Return processor, cores, memory and GPUs of this machine."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": total_bytes(),
        "gpus": _gpus(),
    }


def _gpus() -> list[str]:
    """Return the names of the GPUs, from torch or else from `nvidia-smi`."""
    if is_installed("torch"):
        import torch

        return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in said.splitlines() if line.strip()]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def write_history(history: list[dict[str, float]], metrics: Sequence[str], path: Path) -> None:
    """Write the run's curve as CSV, one row per epoch."""
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, _columns(metrics), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rounded(history, metrics))


def rounded(history: list[dict[str, float]], metrics: Sequence[str]) -> list[dict[str, float]]:
    """Return the rounded figures of each epoch: number (from 1), loss, `metrics` of the tune split, and rate."""
    rows = [{key: round(row.get(key, float("nan")), 6) for key in _columns(metrics)} for row in history]
    return [{**row, "epoch": int(row["epoch"]) + 1} for row in rows]


def _columns(metrics: Sequence[str]) -> tuple[str, ...]:
    return "epoch", "train_loss", *metrics, "learning_rate"
