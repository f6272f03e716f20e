"""Parts about attention: how fast the kernels are at which length, and what checkpointing saves.

`sdpa` takes the padded batch, `ragged` the scatterers without padding, and `ragged, padded` the batch as training
gives it. Answers and gradients of the kernels: `pytest -m gpu`.

Shape legend: B buildings, L scatterers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from benchmarks.common import ROOT
from benchmarks.gpu.parts import Found, Table, Work
from benchmarks.memory import timed
from plumbline.model.attention import RAGGED, SDPA
from plumbline.model.attention.kernels import ragged_attention
from plumbline.model.attention.layers import packed_tokens
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.spec import new_spec
from plumbline.params import load_params
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE

HEADS, CHANNELS = 4, 24
SCATTERERS = (4096, 16384, 65536, 262144)
"""Of a batch of short buildings."""
REPEATS, CPU_REPEATS = 20, 3
TOO_LARGE = "memory full"
Step = Callable[[], Tensor]


def as_training(work: Work) -> None:
    """Set what `train` sets on a GPU: no TF32, and torch's own kernels of attention."""
    if not work.dry:
        from plumbline.train.distributed.strategies import repeatable  # loads Lightning, for seconds

        repeatable()


def ragged(work: Work) -> Found:
    """Time `ragged` beside padded SDPA at 8 to 64 scatterers, forward and backward, in bf16."""
    as_training(work)
    columns = ["scatterers a batch", "kernel", "forward, ms", "with backward, ms", "times padded SDPA"]
    table = Table("Short buildings of 8 to 64 scatterers, bf16", columns)
    for count in SCATTERERS[: 1 if work.dry else None]:
        length_B = torch.randint(8, 65, (count // 36,), generator=torch.Generator().manual_seed(0))
        base = 0.0
        for name, leaves, step in steps(length_B, work.device):
            forward, both = times_of(leaves, step, work.device)
            base = base or both  # SDPA is the first
            table.rows.append([f"{count:,}", name, f"{forward:.3f}", f"{both:.3f}", f"{base / both:.2f}"])
    return Found([table])


def checkpointing(work: Work) -> Found:
    """Time a step of the whole network with and without `checkpoint_activations`."""
    as_training(work)
    length, scatterers = (64, 1024) if work.dry else (512, 1 << 16)
    title = f"Activation checkpointing, {scatterers // length} buildings of {length}"
    table = Table(title, ["checkpoint_activations", "ms", "MB"])
    for name in ("off", "on"):
        try:
            ms, memory = timed(_step(scatterers // length, length, name == "on", work.device))
            table.rows.append([name, f"{ms:.2f}", f"{memory:,.0f}"])
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            table.rows.append([name, TOO_LARGE, TOO_LARGE])
    return Found([table])


def _step(buildings: int, length: int, checkpoint: bool, device: str) -> Callable[[], None]:
    """Make a step of the whole network, forward and backward."""
    section = load_params(ROOT / "params.yaml").model.model_copy(update={"checkpoint_activations": checkpoint})
    model = Diagnosis(new_spec(section, length)).to(device).train()
    inputs = [torch.randn(buildings, length, len(columns), device=device) for columns in (DISTANCE, SLOPE)]
    inputs += [torch.randn(buildings, len(GEOMETRY), device=device)]
    inputs += [torch.ones(buildings, length, dtype=torch.bool, device=device)]

    def step() -> None:
        answer = model.raw(*inputs)
        (answer.logits_B4.square().mean() + answer.severity_B3.square().mean()).backward()  # type: ignore[no-untyped-call]

    return step


def steps(length_B: Tensor, device: str) -> Iterator[tuple[str, list[Tensor], Step]]:
    """Yield each kernel: its name, what gradients are of, and a pass forward."""
    torch.manual_seed(0)
    length_B = length_B.to(device)
    mask_BL = torch.arange(int(length_B.max()), device=device) < length_B[:, None]
    padded = [torch.randn(*mask_BL.shape, HEADS, CHANNELS, device=device, dtype=torch.bfloat16) for _ in range(3)]
    packed = [part[mask_BL].requires_grad_() for part in padded]
    padded = [part.requires_grad_() for part in padded]
    for name, kernel in (("sdpa", SDPA), ("ragged, padded", RAGGED)):
        keys = kernel.keys(mask_BL)
        yield name, padded, lambda kernel=kernel, keys=keys: kernel.mix(*(x.transpose(1, 2) for x in padded), keys)
    if device == "cpu":  # there, torch stands for the kernels, and wants the batch padded
        return
    tokens = packed_tokens(length_B)
    yield "ragged", packed, lambda: ragged_attention(*packed, *tokens)[0]


def times_of(leaves: list[Tensor], step: Step, device: str) -> tuple[float, float]:
    """Return the time of a pass forward, and of one forward and backward, ms."""
    gradient = torch.ones_like(step())
    return time_of(step, device), time_of(lambda: torch.autograd.grad(step(), leaves, gradient), device)


def time_of(step: Callable[[], object], device: str) -> float:
    """Return the median time on the device, ms; the first calls compile."""
    for _ in range(3):
        step()
    if device == "cpu":
        times = []
        for _ in range(CPU_REPEATS):
            began = time.perf_counter()
            step()
            times.append(1e3 * (time.perf_counter() - began))
        return sorted(times)[CPU_REPEATS // 2]
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(REPEATS)]
    for began, ended in events:
        began.record()
        step()
        ended.record()
    torch.cuda.synchronize()
    return sorted(began.elapsed_time(ended) for began, ended in events)[REPEATS // 2]
