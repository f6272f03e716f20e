"""Memory: how much there is, how much is in use."""

from __future__ import annotations

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


def free_bytes(gpu: bool) -> int:
    """Free memory of the GPU, or of the machine."""
    return torch.cuda.mem_get_info()[0] if gpu else int(psutil.virtual_memory().available)


def total_bytes() -> int:
    """Memory of the machine."""
    return int(psutil.virtual_memory().total)
