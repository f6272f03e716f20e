"""Build layers of attention on tokens, with any kernel.

A token is a scatterer. Those of a building are neighbours; between two buildings there may
be padding. The kernels have the same weights and the same answers, and need other memory
and time.

Shape legend: B buildings, L scatterers, T tokens with padding, D channels, H heads, E
channels a head.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from plumbline.model.encoder import Dropout, Linear
from plumbline.params.plugins import ATTENTION


class Tokens(NamedTuple):
    """For each token, the tokens of its building: `begin` to `end - 1`; padding has 0 and 0."""

    begin_T: Tensor
    """int32"""
    end_T: Tensor
    """int32"""


def packed_tokens(length_B: Tensor) -> Tokens:
    """Describe buildings that follow each other without padding.

    Args:
        length_B: scatterers of each building, int; may be 0.

    Returns:
        Tokens: T is the sum of `length_B`.
    """
    end_B = length_B.cumsum(0)
    ends_T = (end_B.repeat_interleave(length_B), (end_B - length_B).repeat_interleave(length_B))
    return Tokens(begin_T=ends_T[1].int(), end_T=ends_T[0].int())


def padded_tokens(mask_BL: Tensor) -> Tokens:
    """Describe a padded batch in its present layout, without copying it or waiting for lengths.

    Args:
        mask_BL: true where there is a scatterer, which is in the first places of a row.

    Returns:
        Tokens: T is B times L.
    """
    batch, length = mask_BL.shape
    begin_B1 = torch.arange(batch, device=mask_BL.device, dtype=torch.int32)[:, None] * length
    end_B1 = begin_B1 + mask_BL.sum(1, keepdim=True, dtype=torch.int32)
    return Tokens(begin_T=(begin_B1 * mask_BL).flatten(), end_T=(end_B1 * mask_BL).flatten())


Keys = Tensor | Tokens
"""Which scatterers may be looked at, in the form a kernel wants it; made once for all
layers of a batch."""


class Kernel(NamedTuple):
    """One way to compute attention."""

    keys: Callable[[Tensor], Keys]
    """Function that returns the keys for the mask (B, L)."""
    mix: Callable[[Tensor, Tensor, Tensor, Any], Tensor]
    """Function that mixes the values (B, H, L, E), by query, key, value and keys."""


def key_mask(mask_BL: Tensor) -> Tensor:
    """Return the mask (B, 1, 1, L), for all heads and queries."""
    return mask_BL[:, None, None, :]


def attention_weights(query_BHLE: Tensor, key_BHLE: Tensor, keys_B11L: Tensor) -> Tensor:
    """Return the attention weights (B, H, L, L) of each scatterer (row) on each (column);
    rows add up to 1.

    Vaswani et al. 2017, equation 1.
    """
    score_BHLL = query_BHLE @ key_BHLE.transpose(-1, -2) / math.sqrt(query_BHLE.shape[-1])
    return score_BHLL.masked_fill(~keys_B11L, torch.finfo(score_BHLL.dtype).min).softmax(-1)


def masked_by_channel(
    query_BHLE: Tensor, key_BHLE: Tensor, value_BHLE: Tensor, keys_B11L: Tensor
) -> Tensor:
    """Compute attention by its formula, with the mask in the product: a channel of ones,
    times one of 0 or nearly -inf.

    A mask after the product is a pass over all scores, which is what most of the time goes
    into: a tenth of the time of the unpruned network at 128 scatterers, a quarter of a
    pruned one's.
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
    """Compute attention by torch's fused kernels; in exports by its formula, without
    torch's guard against empty rows.

    Every building has a scatterer. The guard is a pass over all scores: a seventh of the
    time of 128 scatterers.
    """
    if torch.compiler.is_exporting():
        return masked_by_channel(query_BHLE, key_BHLE, value_BHLE, keys_B11L)
    return scaled_dot_product_attention(query_BHLE, key_BHLE, value_BHLE, attn_mask=keys_B11L)


SDPA = Kernel(key_mask, fused)


class Attention(nn.Module):
    """Multi-head self-attention; query, key and value are separate layers so that channels
    can be pruned."""

    def __init__(self, width: int, inner: int, heads: int, kind: str) -> None:
        super().__init__()
        self.heads = heads
        self.kernel: Kernel = ATTENTION[kind]
        self.query = Linear(width, inner)
        self.key = Linear(width, inner)
        # It adds the same to all that a scatterer looks at, which the softmax takes off
        # again. So its gradient is rounding errors alone, of which Adam would make whole
        # steps, in each process others.
        self.key.bias.requires_grad_(False)
        self.value = Linear(width, inner)
        self.out = Linear(inner, width)

    def forward(self, x_BLD: Tensor, keys: Keys) -> Tensor:
        """Mix the scatterers of each building; positions outside of `keys` are neither read
        nor meaningful."""
        query, key, value = (
            self._split(layer(x_BLD)) for layer in (self.query, self.key, self.value)
        )
        mixed_BHLE = self.kernel.mix(query, key, value, keys)
        mixed: Tensor = self.out(mixed_BHLE.transpose(1, 2).flatten(-2))
        return mixed

    def weights(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Return the attention weights (B, H, L, L) of each scatterer (row) on each
        (column), with any kernel."""
        return attention_weights(
            self._split(self.query(x_BLD)), self._split(self.key(x_BLD)), key_mask(mask_BL)
        )

    def _split(self, x_BLD: Tensor) -> Tensor:
        """Split the channels into heads: (B, H, L, E)."""
        parts_BLHE: Tensor = x_BLD.unflatten(-1, (self.heads, -1))  # type: ignore[no-untyped-call]
        return parts_BLHE.transpose(1, 2)


class AttentionLayer(nn.Module):
    """Attention and a feed-forward part, each normalised before and added after (Xiong et
    al. 2020)."""

    def __init__(
        self, width: int, inner: int, feedforward: int, *, heads: int, kind: str, dropout: float
    ) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(width)
        self.attention = Attention(width, inner, heads, kind)
        self.norm_feedforward = nn.LayerNorm(width)
        self.widen = Linear(width, feedforward)
        self.narrow = Linear(feedforward, width)
        self.dropout = Dropout(dropout)

    def forward(self, x_BLD: Tensor, keys: Keys) -> Tensor:
        """Return features shaped as `x_BLD`; values outside of `keys` never reach a
        position inside."""
        x_BLD = x_BLD + self.dropout(self.attention(self.norm_attention(x_BLD), keys))
        inner = nn.functional.gelu(self.widen(self.norm_feedforward(x_BLD)))
        added_BLD: Tensor = self.dropout(self.narrow(inner))
        return x_BLD + added_BLD
