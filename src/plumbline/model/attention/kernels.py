"""Compute attention by Plumbline's Triton kernels (`ragged`), or by their reference in torch.

Shape legend: B buildings, L scatterers of the longest, H heads, E channels a head, T tokens (B times L).
"""

from __future__ import annotations

import functools
import math
import os
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from plumbline.core.console import log
from plumbline.core.extras import is_installed
from plumbline.model.attention import kernels as reference
from plumbline.model.attention.layers import Kernel, Keys, Tokens, fused, key_mask, padded_tokens


def runs_triton(x: Tensor) -> bool:
    """Say whether the Triton kernels compute `x`: on a GPU, or where `TRITON_INTERPRET=1` was set before the start."""
    able = x.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"
    return able and x.dtype != torch.float64 and _triton_is_there()


@functools.cache
def _triton_is_there() -> bool:
    return is_installed("triton.language")  # an empty folder of that name is taken for a package, too


def _by(x: Tensor) -> ModuleType:
    """Choose the module that computes `x`."""
    if not runs_triton(x):
        _say_without_triton()
        return reference
    from plumbline.model.attention import triton_kernels

    return triton_kernels


@functools.cache
def _say_without_triton() -> None:
    """Say it once a process."""
    log.info("attention ragged: without a GPU and Triton, torch computes it, with the same weights and answers")


@torch.library.custom_op("plumbline::ragged_attention", mutates_args=())
def ragged_attention(
    query_THE: Tensor, key_THE: Tensor, value_THE: Tensor, begin_T: Tensor, end_T: Tensor
) -> tuple[Tensor, Tensor]:
    """Mix the tokens of each building: softmax(query key^T / sqrt(E)) value, within the building alone.

    Args:
        query_THE: tokens of all buildings, one building after another; float.
        key_THE: same shape.
        value_THE: same shape.
        begin_T: first token of each token's building, int32; see `tokens.Tokens`.
        end_T: token after its last, int32.

    Returns:
        tuple: (T, H, E), and (T, H) the logarithm of the sum of exponentials of each token's scores, which the
        gradients need. Both are 0 for padding.
    """
    given = [part.contiguous() for part in (query_THE, key_THE, value_THE)]
    mixed_THE, total_TH = _by(query_THE).forward(*given, Tokens(begin_T, end_T))
    return mixed_THE, total_TH


@ragged_attention.register_fake
def _shapes(
    query_THE: Tensor, key_THE: Tensor, value_THE: Tensor, begin_T: Tensor, end_T: Tensor
) -> tuple[Tensor, Tensor]:
    total_dtype = torch.promote_types(query_THE.dtype, torch.float32)
    return query_THE.new_empty(query_THE.shape), query_THE.new_empty(query_THE.shape[:2], dtype=total_dtype)


@torch.library.custom_op("plumbline::ragged_attention_backward", mutates_args=())
def ragged_attention_backward(
    grad_THE: Tensor,
    query_THE: Tensor,
    key_THE: Tensor,
    value_THE: Tensor,
    mixed_THE: Tensor,
    total_TH: Tensor,
    begin_T: Tensor,
    end_T: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of query, key and value from that of the answer, `grad_THE`."""
    parts = (grad_THE, query_THE, key_THE, value_THE, mixed_THE, total_TH)
    given = [part.contiguous() for part in parts]
    to_query_THE, to_key_THE, to_value_THE = _by(query_THE).backward(*given, Tokens(begin_T, end_T))
    return to_query_THE, to_key_THE, to_value_THE


@ragged_attention_backward.register_fake
def _shapes_of_gradients(
    grad_THE: Tensor,
    query_THE: Tensor,
    key_THE: Tensor,
    value_THE: Tensor,
    mixed_THE: Tensor,
    total_TH: Tensor,
    begin_T: Tensor,
    end_T: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    made = [part.new_empty(part.shape) for part in (query_THE, key_THE, value_THE)]
    return made[0], made[1], made[2]


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    query_THE, key_THE, value_THE, begin_T, end_T = inputs
    ctx.save_for_backward(query_THE, key_THE, value_THE, *output, begin_T, end_T)


def _gradients(ctx: Any, grad_THE: Tensor, _grad_TH: Tensor) -> tuple[Tensor | None, ...]:
    # The logarithms are for this function alone: nothing else reads them.
    return (*ragged_attention_backward(grad_THE, *ctx.saved_tensors), None, None)


ragged_attention.register_autograd(_gradients, setup_context=_keep)


def ragged_keys(mask_BL: Tensor) -> Keys:
    """Return where each building lies in the batch; in an export, the mask of `fused`, since ONNX lacks the operator.

    The batch stays as it is: to copy it without its padding, and back, would move more than the padding of buildings of
    similar lengths.
    """
    if torch.compiler.is_exporting():
        return key_mask(mask_BL)
    return padded_tokens(mask_BL)


def ragged(query_BHLE: Tensor, key_BHLE: Tensor, value_BHLE: Tensor, keys: Tensor | Tokens) -> Tensor:
    """Mix the scatterers of each building; 0 in the padding. See `ragged_keys` for when `fused` is used."""
    if isinstance(keys, Tensor):
        return fused(query_BHLE, key_BHLE, value_BHLE, keys)
    # Query, key and value lie in memory as (B, L, H, E): this copies nothing.
    query_THE, key_THE, value_THE = (part.transpose(1, 2).flatten(0, 1) for part in (query_BHLE, key_BHLE, value_BHLE))
    mixed_THE, _ = ragged_attention(query_THE, key_THE, value_THE, keys.begin_T, keys.end_T)
    batch, _, length, _ = query_BHLE.shape
    mixed_BLHE: Tensor = mixed_THE.unflatten(0, (batch, length))
    return mixed_BLHE.transpose(1, 2)


RAGGED = Kernel(ragged_keys, ragged)


class _Rows:
    """Move tokens to a row for each building, and back."""

    def __init__(self, tokens: Tokens, dtype: torch.dtype) -> None:
        place_T = torch.arange(len(tokens.begin_T), device=tokens.begin_T.device)
        begin_B = place_T[(tokens.begin_T == place_T) & (tokens.end_T > place_T)]
        end_B = tokens.end_T[begin_B]
        longest = int((end_B - begin_B).max()) if len(begin_B) else 0
        token_BL = begin_B[:, None] + torch.arange(longest, device=begin_B.device)
        self.mask_BL = token_BL < end_B[:, None]
        self.token_BL = token_BL.where(self.mask_BL, begin_B[:, None])
        self.dtype = dtype

    def __call__(self, x_THE: Tensor) -> Tensor:
        """(B, H, L, E); padding repeats a building's first token, and is masked."""
        return x_THE[self.token_BL].transpose(1, 2).to(self.dtype)

    def scores(self, query_BHLE: Tensor, key_BHLE: Tensor) -> Tensor:
        """(B, H, L, L), -inf where the key is padding."""
        score_BHLL = query_BHLE @ key_BHLE.transpose(-1, -2) / math.sqrt(query_BHLE.shape[-1])
        return score_BHLL.masked_fill(~self.mask_BL[:, None, None], -torch.inf)

    def back(self, x_BHLE: Tensor, like_THE: Tensor) -> Tensor:
        """Tokens as in `like_THE`; padding is 0."""
        x_THE = torch.zeros(like_THE.shape, dtype=like_THE.dtype, device=like_THE.device)
        x_THE[self.token_BL[self.mask_BL]] = x_BHLE.transpose(1, 2)[self.mask_BL].to(like_THE.dtype)
        return x_THE


def forward(query_THE: Tensor, key_THE: Tensor, value_THE: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor]:
    """Mix the tokens of each building.

    Returns:
        tuple: (T, H, E) as `query_THE`, and (T, H) the logarithm of the sum of exponentials of each token's scores, in
        float32 or more. Both are 0 for padding.
    """
    rows = _Rows(tokens, torch.promote_types(query_THE.dtype, torch.float32))
    score_BHLL = rows.scores(rows(query_THE), rows(key_THE))
    total_BHL1 = score_BHLL.logsumexp(-1, keepdim=True)
    mixed_BHLE = (score_BHLL - total_BHL1).exp() @ rows(value_THE)
    total_TH1 = torch.empty((*query_THE.shape[:2], 1), dtype=rows.dtype, device=query_THE.device)
    return rows.back(mixed_BHLE, query_THE), rows.back(total_BHL1, total_TH1)[..., 0]


def backward(
    grad_THE: Tensor,
    query_THE: Tensor,
    key_THE: Tensor,
    value_THE: Tensor,
    mixed_THE: Tensor,
    total_TH: Tensor,
    tokens: Tokens,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of query, key and value from that of the answer: Dao et al. 2022, algorithm 4, untiled."""
    rows = _Rows(tokens, torch.promote_types(query_THE.dtype, torch.float32))
    query, key, value, grad, mixed = map(rows, (query_THE, key_THE, value_THE, grad_THE, mixed_THE))
    # Rows of padding count for nothing.
    grad = grad * rows.mask_BL[:, None, :, None]
    share_BHLL = (rows.scores(query, key) - rows(total_TH[..., None])).exp()
    change_BHLL = share_BHLL * (grad @ value.transpose(-1, -2) - (grad * mixed).sum(-1, keepdim=True))
    change_BHLL = change_BHLL / math.sqrt(query.shape[-1])
    return (
        rows.back(change_BHLL @ key, query_THE),
        rows.back(change_BHLL.transpose(-1, -2) @ query, key_THE),
        rows.back(share_BHLL.transpose(-1, -2) @ grad, value_THE),
    )
