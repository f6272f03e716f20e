"""Take time and memory of steps of this process: the GPU's where there is one, the machine's where there is none."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import torch

REPEATS = 5


def begin_memory() -> float:
    """Return the memory of now, MB; from here on the peak counts."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated() / 2**20
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak_memory() -> float:
    """Return the most since `begin_memory`, MB."""
    return torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else _status("VmHWM")


def _status(name: str) -> float:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.M)
    return int(found[1]) / 1024 if found else float("nan")


def wait() -> float:
    """Return the time once the device has done what it was asked for, s."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def timed(step: Callable[[], None]) -> tuple[float, float]:
    """Return the fastest of some repetitions, ms, and the peak memory on top, MB."""
    step()  # compiles, and takes memory that stays
    base, times = begin_memory(), []
    for _ in range(REPEATS):
        began = wait()
        step()
        times.append(wait() - began)
    return 1e3 * min(times), peak_memory() - base
