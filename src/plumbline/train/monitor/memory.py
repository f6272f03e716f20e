"""Measure memory (total, free and in use) and the load of the GPU."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil  # type: ignore[import-untyped]

if TYPE_CHECKING:
    import torch

GROUP = Path("/sys/fs/cgroup")


class Memory(NamedTuple):
    """Total and free memory, bytes."""

    total: int
    free: int
    """Without taking it from others."""


def memory_share(device: torch.device) -> float:
    """Return the share of memory in use by all processes; on a GPU, the peak share of this process.

    On a GPU: what others hold, and the most that tensors of this process took at once. What torch keeps beyond that for
    later tensors counts as free: it grows to all there is, and nothing is wrong.
    """
    if device.type == "cuda":
        import torch

        free, total = torch.cuda.mem_get_info(device)
        # Both at once, and not flattened: this is asked for in every batch.
        used = torch.cuda.memory_stats_as_nested_dict(device)
        others = total - free - used["reserved_bytes"]["all"]["current"]
        return float((others + used["allocated_bytes"]["all"]["peak"]) / total)
    memory = machine()
    return 1 - memory.free / memory.total


def memory_bytes(device: torch.device) -> int:
    """Return the peak memory of this process on the GPU, or else on the machine."""
    if device.type == "cuda":
        import torch

        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def gpu_share(device: torch.device) -> float | None:
    """Return the share of recent time in which the GPU was busy; None without a GPU or a driver that reports it."""
    if device.type != "cuda":
        return None
    import torch

    try:
        return torch.cuda.utilization(device) / 100
    except Exception:  # nvidia-ml-py is not there, or raises errors of its own, as for a part of a GPU
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


def total_bytes() -> int:
    """Return the memory of the machine, or of the container."""
    return machine().total


def machine(group: Path = GROUP) -> Memory:
    """Return the memory of the machine, or of a smaller container; `group` is its control group, version 2."""
    memory = psutil.virtual_memory()
    whole = Memory(int(memory.total), int(memory.available))
    try:
        most = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        parts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no such group, or one without a bound, which says `max`
        return whole
    # What was read from files and is not in use goes before anything is refused.
    free = max(0, most - used + int(parts.get("inactive_file", 0)))
    return Memory(min(whole.total, most), min(whole.free, free))
