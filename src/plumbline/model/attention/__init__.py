"""Provide attention layers and two ways to compute them: `sdpa` and `ragged`."""

from plumbline.model.attention.kernels import RAGGED
from plumbline.model.attention.layers import (
    SDPA,
    Attention,
    AttentionLayer,
    Kernel,
    attention_weights,
    key_mask,
    masked_by_channel,
)

__all__ = [
    "RAGGED",
    "SDPA",
    "Attention",
    "AttentionLayer",
    "Kernel",
    "attention_weights",
    "key_mask",
    "masked_by_channel",
]
