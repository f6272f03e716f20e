"""Time and memory of attention and of the network, without Lightning, which takes seconds to load.

Shape legend: B buildings, L scatterers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from plumbline.model.diagnosis import Diagnosis
from plumbline.model.spec import new_spec
from plumbline.params import Params
from plumbline.params.plugins import ATTENTION
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE

Result = dict[str, float]
REPEATS = 5
_before: list[float] = []
"""Peaks, MB, that were over when `begin_memory` began anew."""


def begin_memory() -> float:
    """Memory of now, MB; from here on the peak counts."""
    _before.append(peak_memory())
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated() / 2**20
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak_memory() -> float:
    """The most since `begin_memory`, MB."""
    return torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else _status("VmHWM")


def most_memory() -> float:
    """Return the most that this process has held, MB: of the GPU's tensors, or of the machine's memory."""
    return max([*_before, peak_memory()])


def _status(name: str) -> float:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.M)
    return int(found[1]) / 1024 if found else float("nan")


def wait() -> float:
    """The time, once the device has done what it was asked for; s."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def timed(step: Callable[[], None]) -> Result:
    """Fastest of some repetitions, ms, and peak memory."""
    step()  # compiles, and takes memory that stays
    base, times = begin_memory(), []
    for _ in range(REPEATS):
        began = wait()
        step()
        times.append(wait() - began)
    return {"ms": 1e3 * min(times), "memory": peak_memory() - base}


def attention(params: Params, case: dict[str, Any]) -> Result:
    """One attention, forward and backward, of `scatterers` in all; buildings are half to all of the length.

    With the mask that it needs, which training makes anew for each batch.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    buildings, length, heads = case["scatterers"] // case["length"], case["length"], params.model.heads
    torch.manual_seed(0)
    mask_BL = torch.arange(length) < torch.randint(length // 2, length + 1, (buildings, 1))
    mask_BL, kind = mask_BL.to(device), ATTENTION[case["kind"]]
    dtype = torch.bfloat16 if case.get("precision") == "bf16" else torch.float32
    shape = (buildings, heads, length, 2 * params.model.channels // heads)
    query, key, value = (torch.randn(shape, device=device, dtype=dtype, requires_grad=True) for _ in range(3))

    def step() -> None:
        mixed = kind.mix(query, key, value, kind.keys(mask_BL))
        torch.autograd.grad(mixed.square().mean(), (query, key, value))

    return timed(step)


def checkpointing(params: Params, case: dict[str, Any]) -> Result:
    """The whole network, forward and backward, with or without `checkpoint_activations`."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    buildings, length = case["scatterers"] // case["length"], case["length"]
    section = params.model.model_copy(update={"checkpoint_activations": case["checkpoint"]})
    model = Diagnosis(new_spec(section, length)).to(device).train()
    inputs = [*_random(buildings, length, device), torch.ones(buildings, length, dtype=torch.bool, device=device)]

    def step() -> None:
        answer = model.raw(*inputs)
        (answer.logits_B4.square().mean() + answer.severity_B3.square().mean()).backward()  # type: ignore[no-untyped-call]

    return timed(step)


def _random(buildings: int, length: int, device: str) -> Iterator[torch.Tensor]:
    for columns in (DISTANCE, SLOPE):
        yield torch.randn(buildings, length, len(columns), device=device)
    yield torch.randn(buildings, len(GEOMETRY), device=device)
