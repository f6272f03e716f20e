"""Compute attention by Plumbline's Triton kernels (`ragged`); where there are none, by torch's own.

Shape legend: B buildings, L scatterers of the longest, H heads, E channels a head, T tokens
(B times L).
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from plumbline.model.attention.layers import Kernel, Keys, Tokens, fused, key_mask, padded_tokens

# Constants, since torch.compile traces what decides on the kernel, and cannot trace a search for
# modules.
HAS_TRITON = getattr(find_spec("triton"), "has_location", False)
"""Presence of Triton; an empty folder of that name is found as well, but has no location."""
IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""State of Triton's interpreter, which runs its kernels on the CPU."""


def runs_triton(device: str) -> bool:
    """Return whether the Triton kernels run on a type of device: a GPU, or where
    `TRITON_INTERPRET=1` was set."""
    return HAS_TRITON and (device == "cuda" or IS_INTERPRETED)


@torch.library.custom_op("plumbline::ragged_attention", mutates_args=())
def ragged_attention(
    query_THE: Tensor, key_THE: Tensor, value_THE: Tensor, begin_T: Tensor, end_T: Tensor
) -> tuple[Tensor, Tensor]:
    """Mix the tokens of each building: softmax(query key^T / sqrt(E)) value, within the
    building alone.

    Args:
        query_THE: tokens of all buildings, one building after another; float.
        key_THE: same shape.
        value_THE: same shape.
        begin_T: first token of each token's building, int32; see `tokens.Tokens`.
        end_T: token after its last, int32.

    Returns:
        tuple: (T, H, E), and (T, H) the logarithm of the sum of exponentials of each
        token's scores, which the gradients need. Both are 0 for padding.
    """
    from plumbline.model.attention import triton_kernels  # Triton is not everywhere

    query, key, value = (part.contiguous() for part in (query_THE, key_THE, value_THE))
    return triton_kernels.forward(query, key, value, Tokens(begin_T, end_T))


@ragged_attention.register_fake
def _shapes(
    query_THE: Tensor, key_THE: Tensor, value_THE: Tensor, begin_T: Tensor, end_T: Tensor
) -> tuple[Tensor, Tensor]:
    return query_THE.new_empty(query_THE.shape), query_THE.new_empty(
        query_THE.shape[:2], dtype=torch.float32
    )


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
    return triton_kernels.backward(
        grad, query, key, value, mixed_THE=mixed, total_TH=total, tokens=Tokens(begin_T, end_T)
    )


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
    return (
        query_THE.new_empty(query_THE.shape),
        key_THE.new_empty(key_THE.shape),
        value_THE.new_empty(value_THE.shape),
    )


def _save_for_backward(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    query_THE, key_THE, value_THE, begin_T, end_T = inputs
    ctx.save_for_backward(query_THE, key_THE, value_THE, *output, begin_T, end_T)


def _compute_gradients(ctx: Any, grad_THE: Tensor, _grad_TH: Tensor) -> tuple[Tensor | None, ...]:
    # The logarithms are for this function alone: nothing else reads them.
    return (*ragged_attention_backward(grad_THE, *ctx.saved_tensors), None, None)


ragged_attention.register_autograd(_compute_gradients, setup_context=_save_for_backward)


def ragged_keys(mask_BL: Tensor) -> Keys:
    """Return the range of tokens of each building; the mask of `fused` without Triton, and for
    ONNX.

    The padding stays in the batch: copying the batch without it, and back, would move more bytes
    than it has.
    """
    if torch.compiler.is_exporting() or not runs_triton(mask_BL.device.type):
        return key_mask(mask_BL)
    return padded_tokens(mask_BL)


def ragged(
    query_BHLE: Tensor, key_BHLE: Tensor, value_BHLE: Tensor, keys: Tensor | Tokens
) -> Tensor:
    """Mix the scatterers of each building; 0 in the padding. See `ragged_keys` for when
    `fused` is used."""
    if isinstance(keys, Tensor):
        return fused(query_BHLE, key_BHLE, value_BHLE, keys)
    if query_BHLE.dtype == torch.float64:  # the kernels add in float32
        mask_BL = (keys.end_T > keys.begin_T).view(len(query_BHLE), -1)
        return fused(query_BHLE, key_BHLE, value_BHLE, key_mask(mask_BL))
    # The layout in memory is (B, L, H, E): this copies nothing.
    query_THE, key_THE, value_THE = (
        part.transpose(1, 2).flatten(0, 1) for part in (query_BHLE, key_BHLE, value_BHLE)
    )
    mixed_THE, _ = ragged_attention(query_THE, key_THE, value_THE, keys.begin_T, keys.end_T)
    batch, _, length, _ = query_BHLE.shape
    mixed_BLHE: Tensor = mixed_THE.unflatten(0, (batch, length))
    return mixed_BLHE.transpose(1, 2)


RAGGED = Kernel(ragged_keys, ragged)
