"""Gradients in 8 bits: each process sums a part of them, and sends the sum in 8 bits again.

Two roundings, each of which remembers what it lost and adds it the next time (Tang et al. 2019, DoubleSqueeze). A plain
all-reduce of 8-bit numbers would overflow, and gathering everybody's gradient costs W - 1 times a quarter.

Shape legend: W processes, C values that one process sums, K blocks of them.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

BLOCK = 2048
"""Values that share a scale: gradients of different layers differ by orders of magnitude."""


class Int8State:
    """What each rounding still owes, by bucket."""

    def __init__(self) -> None:
        self.own: dict[int, Tensor] = {}
        self.summed: dict[int, Tensor] = {}
        self.step = 0


def int8_hook(state: Int8State, bucket: Any) -> tuple[Future[Tensor], int]:
    """Mean of the bucket over all processes, and the bytes it was sent in."""
    buffer, key, world = bucket.buffer(), bucket.index(), dist.get_world_size()
    size = -(-buffer.numel() // world)
    value_WC = torch.nn.functional.pad(buffer, (0, size * world - buffer.numel())).view(world, size).float()
    if key in state.own and state.own[key].shape == value_WC.shape:
        value_WC = value_WC + state.own[key]

    code_WC, scale_WK = quantise(value_WC)
    state.own[key] = value_WC - dequantise(code_WC, scale_WK)
    all_code_WC, all_scale_WK = torch.empty_like(code_WC), torch.empty_like(scale_WK)
    dist.all_to_all_single(all_code_WC, code_WC)
    dist.all_to_all_single(all_scale_WK, scale_WK)
    mean_1C = dequantise(all_code_WC, all_scale_WK).mean(0, keepdim=True)
    if key in state.summed and state.summed[key].shape == mean_1C.shape:
        mean_1C = mean_1C + state.summed[key]

    code_1C, scale_1K = quantise(mean_1C)
    state.summed[key] = mean_1C - dequantise(code_1C, scale_1K)
    dist.all_gather_single(all_code_WC, code_1C)
    dist.all_gather_single(all_scale_WK, scale_1K)
    buffer.copy_(dequantise(all_code_WC, all_scale_WK).flatten()[: buffer.numel()])

    if bucket.is_last():
        if state.step == 0:  # DDP orders its buckets anew after the first step
            state.own.clear()
            state.summed.clear()
        state.step += 1
    future: Future[Tensor] = Future(devices=[buffer.device] if buffer.is_cuda else None)
    future.set_result(buffer)
    return future, code_WC.numel() + 4 * scale_WK.numel()


def quantise(value_WC: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers from -127 to 127 (W, C), and what one of them is worth in each block (W, K)."""
    blocks = -(-value_WC.shape[1] // BLOCK)
    padded = torch.nn.functional.pad(value_WC, (0, blocks * BLOCK - value_WC.shape[1]))
    value_WKb = padded.view(len(value_WC), blocks, BLOCK)
    scale_WK = value_WKb.abs().amax(-1) / 127
    code_WKb = (value_WKb / scale_WK.clamp(min=torch.finfo(torch.float32).tiny)[..., None]).round()
    # A gradient that is no number stays none: its block's scale is.
    code_WKb = code_WKb.nan_to_num(0, 0, 0).to(torch.int8)
    return code_WKb.view(len(value_WC), -1)[:, : value_WC.shape[1]].contiguous(), scale_WK


def dequantise(code_WC: Tensor, scale_WK: Tensor) -> Tensor:
    """(W, C) float32."""
    return code_WC.float() * scale_WK.repeat_interleave(BLOCK, dim=1)[:, : code_WC.shape[1]]
