"""Compute attention by Plumbline's kernels for many short sequences, and by torch's `varlen_attn` for long ones.

Shape legend: B buildings, L scatterers, H heads, E channels a head, T places (B times L), P scatterers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from plumbline.model.attention.kernel import Kernel, Keys, fused, key_mask
from plumbline.model.attention.operator import ragged_attention
from plumbline.model.attention.tokens import Packed, Tokens, pack, padded_tokens

SHORT = 128
"""Scatterers of the longest building of a batch, up to which Plumbline's kernels compute it."""


def ragged_keys(mask_BL: Tensor) -> Keys:
    """Return where each building lies in the batch; in an export, the mask of `fused`, since ONNX lacks the operator.

    The batch stays as it is: to copy it without its padding, and back, would move more than the padding of buildings of
    similar lengths.
    """
    if torch.compiler.is_exporting():
        return key_mask(mask_BL)
    tokens = padded_tokens(mask_BL)
    if mask_BL.is_cuda and mask_BL.shape[1] > SHORT and not torch.compiler.is_compiling():
        return tokens._replace(packed=pack(mask_BL))
    return tokens


def ragged(query_BHLE: Tensor, key_BHLE: Tensor, value_BHLE: Tensor, keys: Tensor | Tokens) -> Tensor:
    """Mix the scatterers of each building; 0 in the padding. See `ragged_keys` for when `fused` is used."""
    if isinstance(keys, Tensor):
        return fused(query_BHLE, key_BHLE, value_BHLE, keys)
    # Query, key and value lie in memory as (B, L, H, E): this copies nothing.
    query_THE, key_THE, value_THE = (part.transpose(1, 2).flatten(0, 1) for part in (query_BHLE, key_BHLE, value_BHLE))
    if keys.packed is not None and _takes_long(query_THE):
        from torch.nn.attention.varlen import varlen_attn  # loads torch's compiler, for seconds

        mixed_THE = long(varlen_attn, query_THE, key_THE, value_THE, keys.packed)
    else:
        mixed_THE, _ = ragged_attention(query_THE, key_THE, value_THE, keys.begin_T, keys.end_T)
    batch, _, length, _ = query_BHLE.shape
    mixed_BLHE: Tensor = mixed_THE.unflatten(0, (batch, length))  # type: ignore[no-untyped-call]
    return mixed_BLHE.transpose(1, 2)


def _takes_long(x_THE: Tensor) -> bool:
    """Say whether `varlen_attn` takes it: FlashAttention-2 wants half precision, few channels, and an Ampere GPU."""
    is_half = x_THE.dtype in (torch.float16, torch.bfloat16)
    return is_half and x_THE.shape[-1] % 8 == 0 and torch.cuda.get_device_capability(x_THE.device) >= (8, 0)


def long(attend: Callable[..., Any], query_THE: Tensor, key_THE: Tensor, value_THE: Tensor, packed: Packed) -> Tensor:
    """Mix the scatterers without padding by `attend`, which is `varlen_attn`; 0 in the padding."""
    parts_PHE = [part[packed.token_P] for part in (query_THE, key_THE, value_THE)]
    mixed_PHE: Tensor = attend(*parts_PHE, packed.offset_S, packed.offset_S, packed.longest, packed.longest)
    return torch.zeros_like(query_THE).index_copy(0, packed.token_P, mixed_PHE)


RAGGED = Kernel(ragged_keys, ragged)
