"""Self-attention over scatterers, as plug-ins of one interface.

Shape legend: B buildings, L scatterers, D channels, H heads, E channels a head.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

Kernel = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def math_kernel(query_BHLE: Tensor, key_BHLE: Tensor, value_BHLE: Tensor, mask_BL: Tensor) -> Tensor:
    """Attention written out (Vaswani et al. 2017, equation 1); keys outside of `mask_BL` weigh nothing."""
    score_BHLL = query_BHLE @ key_BHLE.transpose(-1, -2) / math.sqrt(query_BHLE.shape[-1])
    score_BHLL = score_BHLL.masked_fill(~mask_BL[:, None, None, :], torch.finfo(score_BHLL.dtype).min)
    return score_BHLL.softmax(-1) @ value_BHLE


def sdpa_kernel(query_BHLE: Tensor, key_BHLE: Tensor, value_BHLE: Tensor, mask_BL: Tensor) -> Tensor:
    """The same through torch's fused kernels."""
    return scaled_dot_product_attention(query_BHLE, key_BHLE, value_BHLE, attn_mask=mask_BL[:, None, None, :])


KERNELS: dict[str, Kernel] = {"math": math_kernel, "sdpa": sdpa_kernel}
"""To add a kernel, add a line; `none` is the absence of one."""


class Attention(nn.Module):
    """Multi-head self-attention; query, key and value are separate layers so that channels can be pruned."""

    def __init__(self, width: int, inner: int, heads: int, kind: str) -> None:
        super().__init__()
        self.heads = heads
        self.kernel = KERNELS[kind]
        self.query = nn.Linear(width, inner)
        self.key = nn.Linear(width, inner)
        self.value = nn.Linear(width, inner)
        self.out = nn.Linear(inner, width)

    def forward(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Mix the scatterers of each building; positions outside of the mask are neither read nor meaningful."""
        query, key, value = (
            layer(x_BLD).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        mixed_BHLE = self.kernel(query, key, value, mask_BL)
        mixed: Tensor = self.out(mixed_BHLE.transpose(1, 2).flatten(-2))
        return mixed


class AttentionLayer(nn.Module):
    """Attention and a feed-forward part, each normalised before and added after (Xiong et al. 2020)."""

    def __init__(self, width: int, inner: int, feedforward: int, heads: int, kind: str, dropout: float) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(width)
        self.attention = Attention(width, inner, heads, kind)
        self.norm_feedforward = nn.LayerNorm(width)
        self.widen = nn.Linear(width, feedforward)
        self.narrow = nn.Linear(feedforward, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Same shape as `x_BLD`; what stands outside of the mask never reaches a position inside."""
        x_BLD = x_BLD + self.dropout(self.attention(self.norm_attention(x_BLD), mask_BL))
        inner = nn.functional.gelu(self.widen(self.norm_feedforward(x_BLD)))
        added_BLD: Tensor = self.dropout(self.narrow(inner))
        return x_BLD + added_BLD
