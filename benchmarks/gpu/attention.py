"""Parts about attention: are the kernels right, how fast are they at which length, and what does checkpointing save.

`sdpa` takes the padded batch, `varlen` (torch's, in half precision) and `ragged` the scatterers without
padding, and `ragged, padded` the batch as training gives it. Moved: the fewest bytes that any kernel can read and
write, of the scatterers alone. Share: the time that this takes at the speed of a copy, or the products at that of a
large product if they take longer (the roofline of Williams et al. 2009), of the time that was measured.

Shape legend: B buildings, L scatterers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.common import ROOT
from benchmarks.gpu.bars import SCATTERERS
from benchmarks.gpu.results import Found, NotMeasured, Table, Work
from benchmarks.memory import timed
from plumbline.model.attention import RAGGED, SDPA, Kernel, attention_weights, key_mask
from plumbline.model.attention.kernels import ragged_attention, runs_triton
from plumbline.model.attention.layers import packed_tokens
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.spec import new_spec
from plumbline.params import load_params
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE

HEADS, CHANNELS = 4, 24
LENGTHS = [(2, 20), (2, 64), (2, 128), (64, 128), (129, 512)]
"""Fewest and most scatterers of a building; all between are equally often."""
PRECISIONS = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
ROUNDING = {"fp32": 1e-5, "bf16": 2**-8, "fp16": 2**-11}
"""What `tests/model/attention` allows, of the norm of what the formula gives in float32."""
REPEATS, CPU_REPEATS = 20, 3
COLUMNS = ["scatterers", "precision", "kernel", "moved, forward / with backward", "forward, ms", "with backward, ms",
           "share of the roofline"]  # fmt: skip
TOO_LARGE = "memory full"
Step = Callable[[], Tensor]
FORMULA = Kernel(key_mask, lambda query, key, value, keys: attention_weights(query, key, keys) @ value)


class Least(NamedTuple):
    """What a pass must do at least, or what the GPU does in a second."""

    bytes: float
    products: float
    """Floating-point operations."""

    def share(self, speed: Least, ms: float) -> float:
        """Return the least time at a speed, of `ms`."""
        return 1e3 * max(self.bytes / speed.bytes, self.products / speed.products) / ms


def as_training(work: Work) -> None:
    """Set what `train` sets on a GPU: no TF32, and torch's own kernels of attention."""
    if not work.dry:
        from plumbline.train.distributed.strategies import repeatable  # loads Lightning, for seconds

        repeatable()


def kernels(work: Work) -> Found:
    """Compare the Triton kernels with the formula, answers and gradients; dry, they are interpreted."""
    if not runs_triton(torch.empty(0, device=work.device)):
        raise NotMeasured("Triton is not installed; torch for GPUs brings it")
    as_training(work)
    columns = ["precision", "answer", "gradients", "allowed"]
    table = Table("Triton kernels beside the formula: relative difference", columns)
    beyond = []
    for name, dtype in PRECISIONS.items():
        answer, *gradients = _differences(dtype, work)
        allowed = ROUNDING[name] if name != "fp32" or work.dry else 1e-3  # a GPU may multiply float32 as TF32
        table.rows.append([name, f"{answer:.1e}", f"{max(gradients):.1e}", f"{allowed:.1e}"])
        if not max(answer, *gradients) <= 2 * allowed:
            beyond.append(name)
    return Found([table], failed=f"kernels beside the formula: too far apart in {', '.join(beyond)}" if beyond else "")


def _differences(dtype: torch.dtype, work: Work) -> list[float]:
    torch.manual_seed(0)
    heads = 1 if work.dry else HEADS
    length_B = drawn(2, 64, 3 if work.dry else 4096).to(work.device)
    mask_BL = torch.arange(int(length_B.max()), device=work.device) < length_B[:, None]
    parts = [torch.randn(*mask_BL.shape, heads, CHANNELS, device=work.device).to(dtype) for _ in range(4)]

    def answers(kind: Any, precision: torch.dtype) -> list[Tensor]:
        given = [part.to(precision).requires_grad_() for part in parts[:3]]
        mixed = kind.mix(*(part.transpose(1, 2) for part in given), kind.keys(mask_BL)).transpose(1, 2)
        mixed = mixed.masked_fill(~mask_BL[..., None, None], 0)
        return [mixed, *torch.autograd.grad(mixed, given, parts[3].to(precision))]

    pairs = zip(answers(RAGGED, dtype), answers(FORMULA, torch.float32), strict=True)
    return [float((found.float() - wanted).norm() / wanted.norm()) for found, wanted in pairs]


def roofline(precision: str) -> Callable[[Work], Found]:
    """Make the part that times each kernel beside what the GPU could do at best."""

    def part(work: Work) -> Found:
        as_training(work)
        table, dtype = Table("Attention alone, and the share of the roofline", COLUMNS), PRECISIONS[precision]
        buildings, lengths = (4, LENGTHS[:2]) if work.dry else (4096, LENGTHS)
        speed = speed_of(dtype, work.device)
        for fewest, most in lengths:
            length_B = drawn(fewest, most, buildings)
            least = works(length_B, dtype.itemsize)
            moved = "{:.1f} / {:.1f} MB".format(*(one.bytes / 1e6 for one in least))
            for name, leaves, step in steps(length_B, dtype, work.device):
                times = times_of(leaves, step, work.device)
                shares = " / ".join(f"{one.share(speed, ms):.0%}" for one, ms in zip(least, times, strict=True))
                cells = [f"{fewest} to {most}", precision, name, moved, *(f"{ms:.3f}" for ms in times), shares]
                table.rows.append(cells)
        return Found([table])

    return part


def ragged(work: Work) -> Found:
    """Time `ragged` beside padded SDPA at 8 to 64 scatterers, forward and backward, in bf16."""
    as_training(work)
    columns = ["scatterers a batch", "kernel", "forward, ms", "with backward, ms", "times padded SDPA"]
    table, figures = Table("Short buildings of 8 to 64 scatterers, bf16", columns), {}
    for count in SCATTERERS[: 1 if work.dry else None]:
        length_B = drawn(8, 64, count // 36)
        base = 0.0
        for name, leaves, step in steps(length_B, torch.bfloat16, work.device):
            forward, both = times_of(leaves, step, work.device)
            base = base or both  # SDPA is the first
            figures[f"ragged.{count}.{name}.ms"] = both
            table.rows.append([f"{count:,}", name, f"{forward:.3f}", f"{both:.3f}", f"{base / both:.2f}"])
    return Found([table], figures)


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


def works(length_B: Tensor, size: int) -> tuple[Least, Least]:
    """Return what forward, and forward with backward, must do; `size` is of a number, bytes.

    Forward reads query, key and value and writes the answer, and a float32 a row and head. Backward reads those and the
    answer's gradient and writes three gradients; it has five products where forward has two (Dao et al. 2022).
    """
    rows, pairs = HEADS * float(length_B.sum()), HEADS * float(length_B.double().square().sum())
    forward = Least(rows * (4 * CHANNELS * size + 4), 4 * CHANNELS * pairs)
    backward = Least(rows * (8 * CHANNELS * size + 4), 10 * CHANNELS * pairs)
    return forward, Least(forward.bytes + backward.bytes, forward.products + backward.products)


def speed_of(dtype: torch.dtype, device: str) -> Least:
    """Measure a copy of 1 GB, which reads and writes it, and a product of two large matrices; less on a CPU."""
    size, side = (2**30, 8192) if device == "cuda" else (2**24, 256)
    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    left = torch.randn(side, side, device=device, dtype=dtype)
    copied, multiplied = time_of(lambda: target.copy_(source), device), time_of(lambda: left @ left, device)
    return Least(2e3 * source.numel() / copied, 2e3 * side**3 / multiplied)


def steps(length_B: Tensor, dtype: torch.dtype, device: str) -> Iterator[tuple[str, list[Tensor], Step]]:
    """Yield each kernel: its name, what gradients are of, and a pass forward."""
    torch.manual_seed(0)
    length_B = length_B.to(device)
    mask_BL = torch.arange(int(length_B.max()), device=device) < length_B[:, None]
    padded = [torch.randn(*mask_BL.shape, HEADS, CHANNELS, device=device, dtype=dtype) for _ in range(3)]
    packed = [part[mask_BL].requires_grad_() for part in padded]
    padded = [part.requires_grad_() for part in padded]
    for name, kernel in (("sdpa", SDPA), ("ragged, padded", RAGGED)):
        keys = kernel.keys(mask_BL)
        yield name, padded, lambda kernel=kernel, keys=keys: kernel.mix(*(x.transpose(1, 2) for x in padded), keys)
    tokens = packed_tokens(length_B)
    yield "ragged", packed, lambda: ragged_attention(*packed, *tokens)[0]
    if device == "cuda" and dtype != torch.float32 and CHANNELS % 8 == 0:
        yield "varlen", packed, lambda: _varlen(packed, length_B)


def _varlen(packed: list[Tensor], length_B: Tensor) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn  # loads torch's compiler

    offset_S, longest = torch.nn.functional.pad(length_B.cumsum(0), (1, 0)).int(), int(length_B.max())
    mixed = varlen_attn(*packed, offset_S, offset_S, longest, longest)
    assert isinstance(mixed, Tensor)
    return mixed


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


def drawn(least: int, most: int, buildings: int) -> Tensor:
    """Draw the lengths of so many buildings."""
    return torch.randint(least, most + 1, (buildings,), generator=torch.Generator().manual_seed(0))
