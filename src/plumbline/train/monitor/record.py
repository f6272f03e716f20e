"""Record a run and its machine; torch is loaded where a GPU is asked for."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil  # type: ignore[import-untyped]

from plumbline.core.files import write_csv

if TYPE_CHECKING:
    import torch

GROUP = Path("/sys/fs/cgroup")


class Memory(NamedTuple):
    """Total and free memory, bytes."""

    total: int
    free: int
    """Memory that no process uses."""


def memory_share(device: torch.device) -> float:
    """Return the share of memory in use by all processes; on a GPU, the peak share of this process.

    On a GPU: the memory of other processes, and the most that tensors of this process used at once.
    What torch keeps beyond that for later tensors counts as free: it may grow to all there is, and
    nothing is wrong.
    """
    if device.type == "cuda":
        import torch

        free, total = torch.cuda.mem_get_info(device)
        # Both at once, and not flattened: this is asked for in every batch.
        used = torch.cuda.memory_stats_as_nested_dict(device)
        other_processes = total - free - used["reserved_bytes"]["all"]["current"]
        return float((other_processes + used["allocated_bytes"]["all"]["peak"]) / total)
    memory = machine()
    return 1 - memory.free / memory.total


def memory_bytes(device: torch.device) -> int:
    """Return the peak memory of this process on the GPU, or else on the machine."""
    if device.type == "cuda":
        import torch

        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def gpu_share(device: torch.device) -> float | None:
    """Return the share of recent time in which the GPU was busy; None without a GPU or a
    driver that reports it."""
    if device.type != "cuda":
        return None
    import torch

    try:
        return torch.cuda.utilization(device) / 100
    except (
        Exception
    ):  # nvidia-ml-py is not there, or raises errors of its own, as for a part of a GPU
        return None


def free_bytes(gpu: bool) -> int:
    """Return the free memory of this process's GPU, or of the machine."""
    if gpu:
        import torch

        return torch.cuda.mem_get_info(number_here())[0]
    return machine().free


def number_here() -> int:
    """Return the number of this process on this machine, from torchrun or SLURM; 0 without them."""
    return int(os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or "0")


def machine(group: Path = GROUP) -> Memory:
    """Return the memory of the machine, or of a smaller container; `group` is its control
    group, version 2."""
    memory = psutil.virtual_memory()
    whole = Memory(int(memory.total), int(memory.available))
    try:
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        parts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no such group, or one without a bound, which says `max`
        return whole
    # What was read from files and is not in use goes before anything is refused.
    free = max(0, limit - used + int(parts.get("inactive_file", 0)))
    return Memory(min(whole.total, limit), min(whole.free, free))


PACKAGES = ("torch", "lightning", "numpy")


def begin_record(
    parameters: Mapping[str, int], key: str, data_sha256: str, settings: dict[str, Any]
) -> dict[str, Any]:
    """Return the facts that are known before the first step, the same in any place at any time.

    Args:
        parameters: how many there are, by part of the network.
        key: of the run: the hash of its data, settings and other inputs.
        data_sha256: of the data alone.
        settings: sections of the params file.
    """
    return {
        "run_key": key,
        "data_sha256": data_sha256,
        "params": settings,
        "parameters": dict(parameters),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages behind a run's numbers."""
    installed = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **installed}


def surroundings() -> dict[str, Any]:
    """Return what differs between runs of the same inputs: `git` (commit), `hardware`,
    `started` (UTC).

    No output of a stage holds it: DVC would see other results in the same figures.
    """
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return {"started": started, "git": git_commit(Path.cwd()), "hardware": hardware()}


WRITTEN = ("dvc.lock", "metrics", "restoration/dvc.lock", "restoration/metrics")
"""Files and folders in git that each run of the pipeline writes anew: DVC's locks, and the
figures of both families."""


def git_commit(folder: Path) -> dict[str, Any] | None:
    """Return the checked-out commit, and whether other files than `WRITTEN` were changed;
    None outside a repository."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout.strip()

    try:
        counted = (":/", *(f":(top,exclude){path}" for path in WRITTEN))
        changed = bool(git("status", "--porcelain", "-uno", "--", *counted))
        return {"commit": git("rev-parse", "HEAD"), "changed": changed}
    except (OSError, subprocess.SubprocessError):
        return None


def hardware() -> dict[str, Any]:
    """Return processor, cores, memory and GPUs of this machine."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": machine().total,
        "gpus": _gpus(),
    }


def _gpus() -> list[str]:
    import torch

    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def write_history(history: list[dict[str, float]], metrics: Sequence[str], path: Path) -> None:
    """Write the run's curve as CSV, one row per epoch."""
    write_csv(round_history(history, metrics), path)


def round_history(
    history: list[dict[str, float]], metrics: Sequence[str]
) -> list[dict[str, float]]:
    """Return the rounded figures of each epoch: number (from 1), loss, `metrics` of the
    tune split, and rate."""
    columns = ("train_loss", *metrics, "learning_rate")
    return [
        {
            "epoch": int(row["epoch"]) + 1,
            **{key: round(row.get(key, float("nan")), 6) for key in columns},
        }
        for row in history
    ]
