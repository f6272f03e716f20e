"""Let scatterers attend to each other; how attention is computed is a plug-in, `math`, `sdpa` or `flex`.

The plug-ins have the same weights and the same answers, and need other memory and time.

Shape legend: B buildings, L scatterers, D channels, H heads, E channels a head, N blocks of scatterers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import pad, scaled_dot_product_attention

from plumbline.core.console import log
from plumbline.model.layers import Dropout, Linear
from plumbline.params.plugins import ATTENTION

Keys = Tensor | BlockMask
"""Which scatterers may be looked at, in the form a kernel wants it; made once for all layers of a batch."""
FLEX_CHANNELS = 16
"""Fewest channels a head that torch's flex kernels take."""
FLEX_BLOCK = 128
"""Scatterers that torch's flex kernels take, or leave out, together."""


class Kernel(NamedTuple):
    """One way to compute attention."""

    keys: Callable[[Tensor], Keys]
    """From the mask (B, L)."""
    mix: Callable[[Tensor, Tensor, Tensor, Any], Tensor]
    """(B, H, L, E) of query, key, value and keys."""


def key_mask(mask_BL: Tensor) -> Tensor:
    """(B, 1, 1, L), for all heads and queries."""
    return mask_BL[:, None, None, :]


def attention_weights(query_BHLE: Tensor, key_BHLE: Tensor, keys_B11L: Tensor) -> Tensor:
    """(B, H, L, L) how much each scatterer (row) looks at each (column); rows add up to 1.

    Vaswani et al. 2017, equation 1.
    """
    score_BHLL = query_BHLE @ key_BHLE.transpose(-1, -2) / math.sqrt(query_BHLE.shape[-1])
    return score_BHLL.masked_fill(~keys_B11L, torch.finfo(score_BHLL.dtype).min).softmax(-1)


def written_out(query_BHLE: Tensor, key_BHLE: Tensor, value_BHLE: Tensor, keys_B11L: Tensor) -> Tensor:
    """Attention by its formula."""
    return attention_weights(query_BHLE, key_BHLE, keys_B11L) @ value_BHLE


def masked_by_channel(query_BHLE: Tensor, key_BHLE: Tensor, value_BHLE: Tensor, keys_B11L: Tensor) -> Tensor:
    """Attention by its formula, with the mask inside of the product: a channel of ones, times one of 0 or nearly -inf.

    A mask after the product is a pass over all scores, which is what most of the time goes into: a tenth of the time of
    the unpruned network at 128 scatterers, a quarter of a pruned one's.
    """
    one_BHL1 = torch.ones_like(query_BHLE[..., :1])
    # Half of the lowest number: a score added to it does not pass the end.
    lowest = torch.finfo(query_BHLE.dtype).min / 2
    hidden_BHL1 = one_BHL1 * ((1 - keys_B11L.to(one_BHL1)) * lowest).transpose(-1, -2)
    scale = 1 / math.sqrt(query_BHLE.shape[-1])
    wide_BHLE = torch.cat([query_BHLE * scale, one_BHL1], dim=-1)
    score_BHLL = wide_BHLE @ torch.cat([key_BHLE, hidden_BHL1], dim=-1).transpose(-1, -2)
    return score_BHLL.softmax(-1) @ value_BHLE


def fused(query_BHLE: Tensor, key_BHLE: Tensor, value_BHLE: Tensor, keys_B11L: Tensor) -> Tensor:
    """Attention by torch's fused kernels; in an export by its formula, without torch's guard against empty rows.

    Every building has a scatterer. The guard is a pass over all scores: a seventh of the time of 128 scatterers.
    """
    if torch.compiler.is_exporting():
        return masked_by_channel(query_BHLE, key_BHLE, value_BHLE, keys_B11L)
    return scaled_dot_product_attention(query_BHLE, key_BHLE, value_BHLE, attn_mask=keys_B11L)


def flex_keys(mask_BL: Tensor) -> Keys:
    """Blocks that hold scatterers, where flex attention is used; else the mask that `fused` takes instead.

    torch's flex attention has no gradients on the CPU, and ONNX has no operator for it. Attention has no weights of its
    own, so that another kernel can stand in.
    """
    if mask_BL.is_cuda and not torch.compiler.is_exporting():
        return block_mask(mask_BL)
    if not torch.compiler.is_compiling():
        _say_replaced()
    return key_mask(mask_BL)


def block_mask(mask_BL: Tensor) -> BlockMask:
    """What flex attention leaves out: whole blocks of padding are never read.

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
    """(B, 1, N) how many blocks of keys are chosen for each block of queries, and (B, 1, N, N) which: those first."""
    dense_B1NN = chosen_BNN[:, None].int()
    order_B1NN = dense_B1NN.argsort(dim=-1, descending=True, stable=True)
    return dense_B1NN.sum(-1).int(), order_B1NN.int()


def flex(query_BHLE: Tensor, key_BHLE: Tensor, value_BHLE: Tensor, keys: Keys) -> Tensor:
    """Attention by torch's flex kernels, compiled at the first use; see `flex_keys` for when by `fused`."""
    if isinstance(keys, Tensor):
        return fused(query_BHLE, key_BHLE, value_BHLE, keys)
    return blockwise(_compiled_flex(), query_BHLE, key_BHLE, value_BHLE, keys)


def blockwise(
    attend: Callable[..., Any], query_BHLE: Tensor, key_BHLE: Tensor, value_BHLE: Tensor, keys: BlockMask
) -> Tensor:
    """Attention by `attend`, which is `flex_attention`, compiled or not; with as many channels as it needs."""
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


MATH, SDPA, FLEX = Kernel(key_mask, written_out), Kernel(key_mask, fused), Kernel(flex_keys, flex)


class Attention(nn.Module):
    """Multi-head self-attention; query, key and value are separate layers so that channels can be pruned."""

    def __init__(self, width: int, inner: int, heads: int, kind: str) -> None:
        super().__init__()
        self.heads = heads
        self.kernel: Kernel = ATTENTION[kind]
        self.query = Linear(width, inner)
        self.key = Linear(width, inner)
        # It adds the same to all that a scatterer looks at, which the softmax takes off again. So its gradient is
        # rounding errors alone, of which Adam would make whole steps, in each process others.
        self.key.bias.requires_grad_(False)
        self.value = Linear(width, inner)
        self.out = Linear(inner, width)

    def forward(self, x_BLD: Tensor, keys: Keys) -> Tensor:
        """Mix the scatterers of each building; positions outside of `keys` are neither read nor meaningful."""
        query, key, value = (self._split(layer(x_BLD)) for layer in (self.query, self.key, self.value))
        mixed_BHLE = self.kernel.mix(query, key, value, keys)
        mixed: Tensor = self.out(mixed_BHLE.transpose(1, 2).flatten(-2))
        return mixed

    def weights(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """(B, H, L, L) how much each scatterer (row) looks at each (column), whatever kernel computes the answers."""
        return attention_weights(self._split(self.query(x_BLD)), self._split(self.key(x_BLD)), key_mask(mask_BL))

    def _split(self, x_BLD: Tensor) -> Tensor:
        """(B, H, L, E)."""
        parts_BLHE: Tensor = x_BLD.unflatten(-1, (self.heads, -1))  # type: ignore[no-untyped-call]
        return parts_BLHE.transpose(1, 2)


class AttentionLayer(nn.Module):
    """Attention and a feed-forward part, each normalised before and added after (Xiong et al. 2020)."""

    def __init__(self, width: int, inner: int, feedforward: int, heads: int, kind: str, dropout: float) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(width)
        self.attention = Attention(width, inner, heads, kind)
        self.norm_feedforward = nn.LayerNorm(width)
        self.widen = Linear(width, feedforward)
        self.narrow = Linear(feedforward, width)
        self.dropout = Dropout(dropout)

    def forward(self, x_BLD: Tensor, keys: Keys) -> Tensor:
        """Same shape as `x_BLD`; what stands outside of `keys` never reaches a position inside."""
        x_BLD = x_BLD + self.dropout(self.attention(self.norm_attention(x_BLD), keys))
        inner = nn.functional.gelu(self.widen(self.norm_feedforward(x_BLD)))
        added_BLD: Tensor = self.dropout(self.narrow(inner))
        return x_BLD + added_BLD
