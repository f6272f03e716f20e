"""Compute attention by torch's flex kernels, which never read whole blocks of padding.

Shape legend: B buildings, L scatterers, H heads, E channels a head, N blocks of scatterers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import pad

from plumbline.core.console import log
from plumbline.model.attention.kernel import Kernel, Keys, fused, key_mask

FLEX_CHANNELS = 16
"""Fewest channels a head that torch's flex kernels take."""
FLEX_BLOCK = 128
"""Scatterers that torch's flex kernels take, or leave out, together."""


def flex_keys(mask_BL: Tensor) -> Keys:
    """Return the blocks that hold scatterers if flex attention is used, else the mask for `fused`.

    torch's flex attention has no gradients on the CPU, and ONNX has no operator for it. Attention has no weights of its
    own, so that another kernel can stand in.
    """
    if mask_BL.is_cuda and not torch.compiler.is_exporting():
        return block_mask(mask_BL)
    if not torch.compiler.is_compiling():
        _say_replaced()
    return key_mask(mask_BL)


def block_mask(mask_BL: Tensor) -> BlockMask:
    """Build the mask of flex attention, which never reads whole blocks of padding.

    The same as of torch's `create_block_mask`, which writes out who may look at whom to find it, (B, L, L): gigabytes
    for a large batch of long buildings. Here all queries may look at the same keys, whose blocks tell it.
    """
    batch, length = mask_BL.shape
    count = -(-length // FLEX_BLOCK)
    real = pad(mask_BL, (0, count * FLEX_BLOCK - length)).view(batch, count, FLEX_BLOCK)
    # In the last block there are queries that are none: torch looks at each pair of it.
    inside_N = torch.arange(1, count + 1, device=mask_BL.device) * FLEX_BLOCK <= length
    whole_BNN = real.all(-1)[:, None, :] & inside_N[:, None]
    partly_BNN = real.any(-1)[:, None, :] & ~whole_BNN

    def is_real(b: Tensor, _head: Tensor, _query: Tensor, key: Tensor) -> Tensor:
        return mask_BL[b, key]

    return BlockMask.from_kv_blocks(
        *_listed(partly_BNN), *_listed(whole_BNN), BLOCK_SIZE=FLEX_BLOCK, mask_mod=is_real, seq_lengths=(length, length)
    )


def _listed(chosen_BNN: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number (B, 1, N) of key blocks for each query block, and (B, 1, N, N) their indices first."""
    dense_B1NN = chosen_BNN[:, None].int()
    order_B1NN = dense_B1NN.argsort(dim=-1, descending=True, stable=True)
    return dense_B1NN.sum(-1).int(), order_B1NN.int()


def flex(query_BHLE: Tensor, key_BHLE: Tensor, value_BHLE: Tensor, keys: Tensor | BlockMask) -> Tensor:
    """Compute attention by torch's flex kernels, compiled at first use; see `flex_keys` for when `fused` is used."""
    if isinstance(keys, Tensor):
        return fused(query_BHLE, key_BHLE, value_BHLE, keys)
    return blockwise(_compiled_flex(), query_BHLE, key_BHLE, value_BHLE, keys)


def blockwise(
    attend: Callable[..., Any], query_BHLE: Tensor, key_BHLE: Tensor, value_BHLE: Tensor, keys: BlockMask
) -> Tensor:
    """Compute attention by `attend` (`flex_attention`, compiled or not), with channels padded as it needs."""
    channels = query_BHLE.shape[-1]
    missing = FLEX_CHANNELS - channels
    parts = [query_BHLE, key_BHLE, value_BHLE]
    if missing > 0:  # zeros add nothing to a product; the scale is that of the channels there are
        parts = [pad(part, (0, missing)) for part in parts]
    mixed: Tensor = attend(*parts, block_mask=keys, scale=1 / math.sqrt(channels))
    return mixed[..., :channels]


@functools.cache
def _compiled_flex() -> Callable[..., Any]:
    """Compiled for all lengths; without compiling, the whole matrix of scores would be kept.

    A lone building, one scatterer, one or two blocks, another precision, and answers without gradients are cases of
    their own: more than the 8 after which torch compiles no more.
    """
    # Its overloads do not name the limit, which it takes.
    compiled: Callable[..., Any] = torch.compile(flex_attention, dynamic=True, recompile_limit=64)  # type: ignore[call-overload]
    return compiled


@functools.cache
def _say_replaced() -> None:
    """Say it once a process."""
    log.info("attention flex: sdpa takes its place on the CPU and in exports, with the same weights and answers")


FLEX = Kernel(flex_keys, flex)
