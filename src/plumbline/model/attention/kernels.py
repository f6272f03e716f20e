"""Compute attention by Plumbline's Triton kernels (`ragged`); where there are none, by torch's own.

Shape legend: B buildings, L scatterers of the longest, H heads, E channels a head, T tokens (B times L).
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from plumbline.core.extras import is_installed
from plumbline.model.attention.layers import Kernel, Keys, Tokens, fused, key_mask, padded_tokens


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def runs_triton(device: str) -> bool:
    """Return whether the Triton kernels run on a type of device: a GPU, or where `TRITON_INTERPRET=1` was set."""
    # An empty folder of that name is taken for a package, too.
    return (device == "cuda" or os.environ.get("TRITON_INTERPRET") == "1") and is_installed("triton.language")


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
    from plumbline.model.attention import triton_kernels  # Triton is not everywhere

    query, key, value = (part.contiguous() for part in (query_THE, key_THE, value_THE))
    return triton_kernels.forward(query, key, value, Tokens(begin_T, end_T))


@ragged_attention.register_fake
def _shapes(
    query_THE: Tensor, key_THE: Tensor, value_THE: Tensor, begin_T: Tensor, end_T: Tensor
) -> tuple[Tensor, Tensor]:
    return query_THE.new_empty(query_THE.shape), query_THE.new_empty(query_THE.shape[:2], dtype=torch.float32)


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
    from plumbline.model.attention import triton_kernels

    tensors = (grad_THE, query_THE, key_THE, value_THE, mixed_THE, total_TH)
    grad, query, key, value, mixed, total = (part.contiguous() for part in tensors)
    return triton_kernels.backward(grad, query, key, value, mixed, total, Tokens(begin_T, end_T))


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
    """Return where each building lies in the batch; the mask of `fused` without Triton, or for ONNX, which lacks the
    operator.

    The batch stays as it is: to copy it without its padding, and back, would move more than the padding of buildings of
    similar lengths.
    """
    if torch.compiler.is_exporting() or not runs_triton(mask_BL.device.type):
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
