"""Parts about attention: are the kernels right, how fast are they at which length, and what does checkpointing save."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks import attention as kernels_alone
from benchmarks.common import ROOT
from benchmarks.gpu.bars import SCATTERERS
from benchmarks.gpu.results import Found, NotMeasured, Table, Work
from benchmarks.speed import network
from plumbline.model.attention import MATH, RAGGED
from plumbline.model.attention.kernels import runs_triton
from plumbline.params import load_params

HEADS, CHANNELS = 4, 24
ROUNDING = {"fp32": 1e-5, "bf16": 2**-8, "fp16": 2**-11}
"""What `tests/model/attention` allows, of the norm of what the formula gives in float32."""
LENGTHS, TOY_LENGTHS = (32, 128, 512, 2048), (32, 128, 256)
KINDS = ("math", "sdpa", "flex", "ragged")
CASES = {"attention": network.attention, "checkpointing": network.checkpointing}
TOO_LARGE = "memory full"


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
    for name, dtype in kernels_alone.PRECISIONS.items():
        answer, *gradients = _differences(dtype, work)
        allowed = ROUNDING[name] if name != "fp32" or work.dry else 1e-3  # a GPU may multiply float32 as TF32
        table.rows.append([name, f"{answer:.1e}", f"{max(gradients):.1e}", f"{allowed:.1e}"])
        if not max(answer, *gradients) <= 2 * allowed:
            beyond.append(name)
    return Found([table], failed=f"kernels beside the formula: too far apart in {', '.join(beyond)}" if beyond else "")


def _differences(dtype: torch.dtype, work: Work) -> list[float]:
    torch.manual_seed(0)
    heads = 1 if work.dry else HEADS
    length_B = kernels_alone.drawn(2, 64, 3 if work.dry else 4096).to(work.device)
    mask_BL = torch.arange(int(length_B.max()), device=work.device) < length_B[:, None]
    parts = [torch.randn(*mask_BL.shape, heads, CHANNELS, device=work.device).to(dtype) for _ in range(4)]

    def answers(kind: Any, precision: torch.dtype) -> list[Tensor]:
        given = [part.to(precision).requires_grad_() for part in parts[:3]]
        mixed = kind.mix(*(part.transpose(1, 2) for part in given), kind.keys(mask_BL)).transpose(1, 2)
        mixed = mixed.masked_fill(~mask_BL[..., None, None], 0)
        return [mixed, *torch.autograd.grad(mixed, given, parts[3].to(precision))]

    pairs = zip(answers(RAGGED, dtype), answers(MATH, torch.float32), strict=True)
    return [float((found.float() - wanted).norm() / wanted.norm()) for found, wanted in pairs]


def roofline(precision: str) -> Callable[[Work], Found]:
    """Make the part that times each kernel beside what the GPU could do at best."""

    def part(work: Work) -> Found:
        as_training(work)
        table = Table("Attention alone, and the share of the roofline", list(kernels_alone.COLUMNS))
        buildings, lengths = (4, kernels_alone.LENGTHS[:2]) if work.dry else (4096, kernels_alone.LENGTHS)
        for least, most in lengths:
            length_B = kernels_alone.drawn(least, most, buildings)
            for row in kernels_alone.measured(length_B, HEADS, CHANNELS, precision, work.device):
                table.rows.append([f"{least} to {most}", precision, *row])
        return Found([table])

    return part


def ragged(work: Work) -> Found:
    """Time `ragged` beside padded SDPA at 8 to 64 scatterers, forward and backward, in bf16."""
    as_training(work)
    columns = ["scatterers a batch", "kernel", "forward, ms", "with backward, ms", "times padded SDPA"]
    table, figures = Table("Short buildings of 8 to 64 scatterers, bf16", columns), {}
    for count in SCATTERERS[: 1 if work.dry else None]:
        length_B = kernels_alone.drawn(8, 64, count // 36)
        base = 0.0
        for name, leaves, step in kernels_alone.steps(length_B, HEADS, CHANNELS, torch.bfloat16, work.device):
            forward, both = kernels_alone.times_of(leaves, step, work.device)
            base = base or both  # SDPA is the first
            figures[f"ragged.{count}.{name}.ms"] = both
            table.rows.append([f"{count:,}", name, f"{forward:.3f}", f"{both:.3f}", f"{base / both:.2f}"])
    return Found([table], figures)


def lengths(precision: str) -> Callable[[Work], Found]:
    """Make the part that times each kernel at 32 to 2,048 scatterers, with the mask that training makes."""

    def part(work: Work) -> Found:
        as_training(work)
        scatterers = 4096 if work.dry else 1 << 18
        units = [f"{kind}, {unit}" for kind in KINDS for unit in ("ms", "MB")]
        title = f"Attention in training, {precision}, {scatterers:,} scatterers a batch"
        table = Table(title, ["scatterers a building", *units])
        for length in TOY_LENGTHS if work.dry else LENGTHS:
            cells = [str(length)]
            for kind in KINDS:
                case = {"case": "attention", "kind": kind, "length": length, "scatterers": scatterers}
                cells += _cells(case | {"precision": precision})
            table.rows.append(cells)
        return Found([table])

    return part


def checkpointing(work: Work) -> Found:
    """Time a step of the whole network with and without `checkpoint_activations`."""
    as_training(work)
    length, scatterers = (64, 1024) if work.dry else (512, 1 << 16)
    title = f"Activation checkpointing, {scatterers // length} buildings of {length}"
    table = Table(title, ["checkpoint_activations", "ms", "MB"])
    for name in ("off", "on"):
        case = {"case": "checkpointing", "length": length, "scatterers": scatterers, "checkpoint": name == "on"}
        table.rows.append([name, *_cells(case)])
    return Found([table])


def _cells(case: dict[str, Any]) -> list[str]:
    """Return time and memory of one case in words."""
    try:
        found = CASES[case["case"]](load_params(ROOT / "params.yaml"), case)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return [TOO_LARGE, TOO_LARGE]
    return [f"{found['ms']:.2f}", f"{found['memory']:,.0f}"]
