"""Memory: how much there is, how much is in use; and how busy the GPU is."""

from __future__ import annotations

import os
import resource

import psutil  # type: ignore[import-untyped]
import torch


def memory_share(device: torch.device) -> float:
    """Of the GPU's memory, or else of the machine's, what is in use by anybody."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return 1 - free / total
    return float(psutil.virtual_memory().percent) / 100


def memory_bytes(device: torch.device) -> int:
    """Most that this process has used of the GPU's memory, or else of the machine's."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def gpu_share(device: torch.device) -> float | None:
    """Of the last moments, the share in which the GPU was busy; None without one, or where its driver does not say."""
    if device.type != "cuda":
        return None
    try:
        return torch.cuda.utilization(device) / 100
    except (ImportError, RuntimeError):  # no nvidia-ml-py, or a driver that is not asked: no reason to end a run
        return None


def free_bytes(gpu: bool) -> int:
    """Free memory of this process's GPU, or of the machine."""
    if gpu:
        return torch.cuda.mem_get_info(int(os.environ.get("LOCAL_RANK", "0")))[0]
    return int(psutil.virtual_memory().available)


def total_bytes() -> int:
    """Memory of the machine."""
    return int(psutil.virtual_memory().total)
