"""Compute attention within buildings in Triton, forward and backward, in tiles of tokens.

A tile holds tokens of one or several buildings. It is compared with the tiles in which
their buildings lie, and a pair of two buildings counts for nothing. The softmax is that of
Milakov and Gimelshein 2018, which needs one pass: sums are scaled anew as a larger score is
met. So no matrix of scores is kept, and the backward pass computes them again from each
row's sum (Dao et al. 2022, FlashAttention; Dao 2023, FlashAttention-2). Queries' and keys'
gradients are two kernels, so that no two programs add to one number and the result is the
same each time.

Shape legend: T tokens, H heads, E channels a head; R tokens of a program's tile, C those of
the tiles it passes.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from plumbline.model.attention.layers import Tokens

ROWS, COLUMNS = 64, 32
"""Tokens of a tile."""
MIN_CHANNELS = 16
"""Smallest number of channels that a product of two tiles accepts."""
DTYPES = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}
LOWEST = tl.constexpr(-1e30)
"""Score in place of -inf, since the difference of two infinities is no number."""


@triton.jit
def _load(start, token_R, real_R, head, heads, E: tl.constexpr, WIDE: tl.constexpr):
    """Load one head's channels of tokens (R, WIDE); 0 in padding and beyond the channels."""
    channel_E = tl.arange(0, WIDE)
    place_RE = (token_R.to(tl.int64)[:, None] * heads + head) * E + channel_E[None, :]
    return tl.load(start + place_RE, mask=real_R[:, None] & (channel_E < E)[None, :], other=0.0)


@triton.jit
def _store(start, x_RE, token_R, inside_R, head, heads, E: tl.constexpr, WIDE: tl.constexpr):
    """Write what `_load` reads, padding included."""
    channel_E = tl.arange(0, WIDE)
    place_RE = (token_R.to(tl.int64)[:, None] * heads + head) * E + channel_E[None, :]
    tl.store(start + place_RE, x_RE, mask=inside_R[:, None] & (channel_E < E)[None, :])


@triton.jit
def _range(begin, end, token_R, count):
    """Load where the building of each token begins and ends, and whether it has one."""
    inside_R = token_R < count
    begin_R = tl.load(begin + token_R, mask=inside_R, other=0)
    end_R = tl.load(end + token_R, mask=inside_R, other=0)
    return begin_R, end_R, end_R > begin_R


@triton.jit
def _forward(
    query, key, value, begin, end, mixed, total,
    count, heads, scale,
    E: tl.constexpr, WIDE: tl.constexpr, R: tl.constexpr, C: tl.constexpr, DTYPE: tl.constexpr,
):  # fmt: skip
    """Compute answers and logarithms of sums of one tile and head."""
    token_R, head = tl.program_id(0) * R + tl.arange(0, R), tl.program_id(1)
    begin_R, end_R, real_R = _range(begin, end, token_R, count)
    first, last = tl.min(tl.where(real_R, begin_R, count)), tl.max(end_R)
    query_RE = _load(query, token_R, real_R, head, heads, E, WIDE)
    highest_R = tl.full([R], LOWEST, tl.float32)
    sum_R = tl.zeros([R], tl.float32)
    mixed_RE = tl.zeros([R, WIDE], tl.float32)
    for start in range(first, last, C):
        token_C = start + tl.arange(0, C)
        begin_C, _end_C, real_C = _range(begin, end, token_C, count)
        key_CE = _load(key, token_C, real_C, head, heads, E, WIDE)
        value_CE = _load(value, token_C, real_C, head, heads, E, WIDE)
        score_RC = tl.dot(query_RE, tl.trans(key_CE), input_precision="ieee") * scale
        same_RC = (begin_R[:, None] == begin_C[None, :]) & real_R[:, None] & real_C[None, :]
        score_RC = tl.where(same_RC, score_RC, float("-inf"))
        higher_R = tl.maximum(highest_R, tl.max(score_RC, 1))
        share_RC = tl.exp(score_RC - higher_R[:, None])
        shrink_R = tl.exp(highest_R - higher_R)
        sum_R = sum_R * shrink_R + tl.sum(share_RC, 1)
        mixed_RE = mixed_RE * shrink_R[:, None] + tl.dot(
            share_RC.to(DTYPE), value_CE, input_precision="ieee"
        )
        highest_R = higher_R
    sum_R = tl.where(real_R, sum_R, 1.0)
    _store(mixed, mixed_RE / sum_R[:, None], token_R, token_R < count, head, heads, E, WIDE)
    total_R = tl.where(real_R, highest_R + tl.log(sum_R), 0.0)
    tl.store(total + token_R * heads + head, total_R, mask=token_R < count)


@triton.jit
def _backward_query(
    grad, query, key, value, begin, end, total, delta, to_query,
    count, heads, scale,
    E: tl.constexpr, WIDE: tl.constexpr, R: tl.constexpr, C: tl.constexpr, DTYPE: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of one tile of queries, over its keys."""
    token_R, head = tl.program_id(0) * R + tl.arange(0, R), tl.program_id(1)
    begin_R, end_R, real_R = _range(begin, end, token_R, count)
    first, last = tl.min(tl.where(real_R, begin_R, count)), tl.max(end_R)
    query_RE = _load(query, token_R, real_R, head, heads, E, WIDE)
    grad_RE = _load(grad, token_R, real_R, head, heads, E, WIDE)
    total_R = tl.load(total + token_R * heads + head, mask=real_R, other=0.0)
    delta_R = tl.load(delta + token_R * heads + head, mask=real_R, other=0.0)
    to_query_RE = tl.zeros([R, WIDE], tl.float32)
    for start in range(first, last, C):
        token_C = start + tl.arange(0, C)
        begin_C, _end_C, real_C = _range(begin, end, token_C, count)
        key_CE = _load(key, token_C, real_C, head, heads, E, WIDE)
        value_CE = _load(value, token_C, real_C, head, heads, E, WIDE)
        score_RC = tl.dot(query_RE, tl.trans(key_CE), input_precision="ieee") * scale
        same_RC = (begin_R[:, None] == begin_C[None, :]) & real_R[:, None] & real_C[None, :]
        share_RC = tl.exp(tl.where(same_RC, score_RC - total_R[:, None], float("-inf")))
        change_RC = tl.dot(grad_RE, tl.trans(value_CE), input_precision="ieee") - delta_R[:, None]
        to_query_RE += tl.dot((share_RC * change_RC).to(DTYPE), key_CE, input_precision="ieee")
    _store(to_query, to_query_RE * scale, token_R, token_R < count, head, heads, E, WIDE)


@triton.jit
def _backward_key(
    grad, query, key, value, begin, end, total, delta, to_key,
    to_value, count, heads, scale,
    E: tl.constexpr, WIDE: tl.constexpr, R: tl.constexpr, C: tl.constexpr, DTYPE: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of one tile of keys and values, over the queries that look at them."""
    token_R, head = tl.program_id(0) * R + tl.arange(0, R), tl.program_id(1)
    begin_R, end_R, real_R = _range(begin, end, token_R, count)
    first, last = tl.min(tl.where(real_R, begin_R, count)), tl.max(end_R)
    key_RE = _load(key, token_R, real_R, head, heads, E, WIDE)
    value_RE = _load(value, token_R, real_R, head, heads, E, WIDE)
    to_key_RE = tl.zeros([R, WIDE], tl.float32)
    to_value_RE = tl.zeros([R, WIDE], tl.float32)
    for start in range(first, last, C):
        token_C = start + tl.arange(0, C)
        begin_C, _end_C, real_C = _range(begin, end, token_C, count)
        query_CE = _load(query, token_C, real_C, head, heads, E, WIDE)
        grad_CE = _load(grad, token_C, real_C, head, heads, E, WIDE)
        total_C = tl.load(total + token_C * heads + head, mask=real_C, other=0.0)
        delta_C = tl.load(delta + token_C * heads + head, mask=real_C, other=0.0)
        score_RC = tl.dot(key_RE, tl.trans(query_CE), input_precision="ieee") * scale
        same_RC = (begin_R[:, None] == begin_C[None, :]) & real_R[:, None] & real_C[None, :]
        share_RC = tl.exp(tl.where(same_RC, score_RC - total_C[None, :], float("-inf")))
        change_RC = tl.dot(value_RE, tl.trans(grad_CE), input_precision="ieee") - delta_C[None, :]
        to_key_RE += tl.dot((share_RC * change_RC).to(DTYPE), query_CE, input_precision="ieee")
        to_value_RE += tl.dot(share_RC.to(DTYPE), grad_CE, input_precision="ieee")
    _store(to_key, to_key_RE * scale, token_R, token_R < count, head, heads, E, WIDE)
    _store(to_value, to_value_RE, token_R, token_R < count, head, heads, E, WIDE)


def _launch(kernel: Any, query_THE: Tensor, *tensors: Tensor) -> None:
    """Run a kernel, a program for each tile and head."""
    count, heads, channels = query_THE.shape
    if not query_THE.numel():
        return
    wide = max(MIN_CHANNELS, triton.next_power_of_2(channels))
    scale = 1 / math.sqrt(channels)
    grid = (triton.cdiv(count, ROWS), heads)
    dtype = DTYPES[query_THE.dtype]
    # Tiles of float32 do not fit into the registers of four warps.
    warps = 8 if query_THE.dtype == torch.float32 else 4
    kernel[grid](
        *tensors, count, heads, scale,
        E=channels, WIDE=wide, R=ROWS, C=COLUMNS, DTYPE=dtype, num_warps=warps,
    )  # fmt: skip


def _widen_for_interpreter(*parts: Tensor) -> list[Tensor]:
    """Return the tensors in types that the kernels multiply rightly.

    The interpreter multiplies the bits of bfloat16 as if they were integers, so it gets float32.
    """
    return [
        part.float() if part.dtype == torch.bfloat16 and not part.is_cuda else part
        for part in parts
    ]


def forward(
    query_THE: Tensor, key_THE: Tensor, value_THE: Tensor, tokens: Tokens
) -> tuple[Tensor, Tensor]:
    """Mix the tokens of each building, of contiguous tensors; see `kernels.ragged_attention`."""
    inputs = _widen_for_interpreter(query_THE, key_THE, value_THE)
    mixed_THE = torch.empty_like(inputs[0])
    total_TH = torch.empty(query_THE.shape[:2], dtype=torch.float32, device=query_THE.device)
    _launch(_forward, inputs[0], *inputs, tokens.begin_T, tokens.end_T, mixed_THE, total_TH)
    return mixed_THE.to(query_THE.dtype), total_TH


def backward(
    grad_THE: Tensor,
    query_THE: Tensor,
    key_THE: Tensor,
    value_THE: Tensor,
    *,
    mixed_THE: Tensor,
    total_TH: Tensor,
    tokens: Tokens,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute gradients of contiguous tensors: Dao et al. 2022, algorithm 4."""
    # The row sums D of the paper, through which a change of a score changes the sum of its row.
    delta_TH = (grad_THE.float() * mixed_THE.float()).sum(-1)
    inputs = _widen_for_interpreter(grad_THE, query_THE, key_THE, value_THE)
    to_query_THE, to_key_THE, to_value_THE = (torch.empty_like(part) for part in inputs[1:])
    inputs += [tokens.begin_T, tokens.end_T, total_TH, delta_TH]
    _launch(_backward_query, inputs[1], *inputs, to_query_THE)
    _launch(_backward_key, inputs[1], *inputs, to_key_THE, to_value_THE)
    dtype = query_THE.dtype
    return to_query_THE.to(dtype), to_key_THE.to(dtype), to_value_THE.to(dtype)
