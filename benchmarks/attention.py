"""Kernels of attention compared on a GPU, forward and backward, with the share of what the GPU could do at best.

    python -m benchmarks.attention [--buildings N] [--heads H] [--channels E]

Prints Markdown; `docs/benchmarks` keeps dated copies. `sdpa` and `flex` take the padded batch, `varlen` (torch's, in
half precision) and `ragged` the scatterers without padding, and `ragged, padded` the batch as training gives it.
Moved: the fewest bytes that any kernel can read and write, of the scatterers alone. Share: the time that this takes at
the speed of a copy, or the products at that of a large product if they take longer (the roofline of Williams et al.
2009), of the time that was measured. Without a GPU it says what would move, and `not measured`. `make gpu` has it in
its page, one precision a part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.common import head, line, parse, parser, stamp
from plumbline.model.attention import FLEX, RAGGED, SDPA
from plumbline.model.attention.kernels import ragged_attention
from plumbline.model.attention.layers import Packed, pack, packed_tokens

LENGTHS = [(2, 20), (2, 64), (2, 128), (64, 128), (129, 512)]
"""Fewest and most scatterers of a building; all between are equally often."""
PRECISIONS = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
REPEATS, CPU_REPEATS = 20, 3
NOT_MEASURED = "not measured"
COLUMNS = ("scatterers", "precision", "kernel", "moved, forward / with backward", "forward, ms", "with backward, ms",
           "share of the roofline")  # fmt: skip
Step = Callable[[], Tensor]


class Work(NamedTuple):
    """What a pass must do at least."""

    bytes: float
    products: float
    """Floating-point operations."""


class Speed(NamedTuple):
    """What the GPU does in a second."""

    bytes: float
    products: float

    def share(self, work: Work, ms: float) -> float:
        """The least time for `work`, of `ms`."""
        return 1e3 * max(work.bytes / self.bytes, work.products / self.products) / ms


def works(length_B: Tensor, heads: int, channels: int, size: int) -> tuple[Work, Work]:
    """Forward, and forward with backward.

    Forward reads query, key and value and writes the answer, and a float32 a row and head. Backward reads those and the
    answer's gradient and writes three gradients; it has five products where forward has two (Dao et al. 2022).
    """
    rows, pairs = heads * float(length_B.sum()), heads * float(length_B.double().square().sum())
    forward = Work(rows * (4 * channels * size + 4), 4 * channels * pairs)
    backward = Work(rows * (8 * channels * size + 4), 10 * channels * pairs)
    return forward, Work(forward.bytes + backward.bytes, forward.products + backward.products)


def time_of(step: Callable[[], object], device: str = "cuda") -> float:
    """Median time on the device, ms; the first calls compile."""
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


def speed_of(dtype: torch.dtype, device: str = "cuda") -> Speed:
    """Speed of a copy of 1 GB, which reads and writes it, and of a product of two large matrices; less on a CPU."""
    size, side = (2**30, 8192) if device == "cuda" else (2**24, 256)
    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    left = torch.randn(side, side, device=device, dtype=dtype)
    copied, multiplied = time_of(lambda: target.copy_(source), device), time_of(lambda: left @ left, device)
    return Speed(2e3 * source.numel() / copied, 2e3 * side**3 / multiplied)


def steps(
    length_B: Tensor, heads: int, channels: int, dtype: torch.dtype, device: str = "cuda"
) -> Iterator[tuple[str, list[Tensor], Step]]:
    """Each kernel: its name, what gradients are of, and a pass forward."""
    torch.manual_seed(0)
    length_B = length_B.to(device)
    mask_BL = torch.arange(int(length_B.max()), device=device) < length_B[:, None]
    padded = [torch.randn(*mask_BL.shape, heads, channels, device=device, dtype=dtype) for _ in range(3)]
    packed = [part[mask_BL].requires_grad_() for part in padded]
    padded = [part.requires_grad_() for part in padded]
    for name, kernel in (("sdpa", SDPA), ("flex", FLEX), ("ragged, padded", RAGGED)):
        keys = kernel.keys(mask_BL)
        yield name, padded, lambda kernel=kernel, keys=keys: kernel.mix(*(x.transpose(1, 2) for x in padded), keys)
    tokens = packed_tokens(length_B)[:2]
    yield "ragged", packed, lambda: ragged_attention(*packed, *tokens)[0]
    if device == "cuda" and dtype != torch.float32 and channels % 8 == 0:
        places = pack(mask_BL)
        yield "varlen", packed, lambda: _varlen(packed, places)


def _varlen(packed: list[Tensor], places: Packed) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn  # loads torch's compiler

    mixed = varlen_attn(*packed, places.offset_S, places.offset_S, places.longest, places.longest)
    assert isinstance(mixed, Tensor)
    return mixed


def moved(length_B: Tensor, heads: int, channels: int, precision: str) -> str:
    """What must be moved, in words."""
    one, both = works(length_B, heads, channels, PRECISIONS[precision].itemsize)
    return f"{one.bytes / 1e6:.1f} / {both.bytes / 1e6:.1f} MB"


def measured(
    length_B: Tensor, heads: int, channels: int, precision: str, device: str = "cuda"
) -> Iterator[tuple[str, ...]]:
    """A row of the table for each kernel, from the third column on."""
    dtype = PRECISIONS[precision]
    least, speed = works(length_B, heads, channels, dtype.itemsize), speed_of(dtype, device)
    for name, leaves, step in steps(length_B, heads, channels, dtype, device):
        times = times_of(leaves, step, device)
        shares = [f"{speed.share(work, ms):.0%}" for work, ms in zip(least, times, strict=True)]
        yield (name, moved(length_B, heads, channels, precision), *(f"{ms:.3f}" for ms in times), " / ".join(shares))


def times_of(leaves: list[Tensor], step: Step, device: str) -> tuple[float, float]:
    """Time of a pass forward, and of one forward and backward, ms."""
    gradient = torch.ones_like(step())
    return time_of(step, device), time_of(lambda: torch.autograd.grad(step(), leaves, gradient), device)


def drawn(least: int, most: int, buildings: int) -> Tensor:
    """Lengths of so many buildings."""
    return torch.randint(least, most + 1, (buildings,), generator=torch.Generator().manual_seed(0))


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    made = parser("attention", __doc__)
    made.add_argument("--buildings", type=int, default=4096, help="of a batch")
    made.add_argument("--heads", type=int, default=4)
    made.add_argument("--channels", type=int, default=24, help="of a head")
    given = parse(made, argv, buildings=16)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"{stamp(device)}; {given.buildings} buildings, {given.heads} heads of {given.channels} channels\n")
    print(head(*COLUMNS))
    for least, most in LENGTHS:
        length_B = drawn(least, most, given.buildings)
        for precision in PRECISIONS:
            if device == "no GPU":
                bytes_moved = moved(length_B, given.heads, given.channels, precision)
                print(line(f"{least} to {most}", precision, "all", bytes_moved, *[NOT_MEASURED] * 3))
                continue
            for row in measured(length_B, given.heads, given.channels, precision):
                print(line(f"{least} to {most}", precision, *row), flush=True)
    if device == "no GPU":
        print(f"\n{NOT_MEASURED.capitalize()}, for want of a GPU: all times, and so the share of the roofline.")


if __name__ == "__main__":
    main()
