"""Provide attention layers and four ways to compute them: `math`, `sdpa`, `flex` and `ragged`."""

from plumbline.model.attention.kernels import FLEX, RAGGED
from plumbline.model.attention.layers import (
    MATH,
    SDPA,
    Attention,
    AttentionLayer,
    Kernel,
    key_mask,
    masked_by_channel,
    written_out,
)

__all__ = [
    "FLEX",
    "MATH",
    "RAGGED",
    "SDPA",
    "Attention",
    "AttentionLayer",
    "Kernel",
    "key_mask",
    "masked_by_channel",
    "written_out",
]
