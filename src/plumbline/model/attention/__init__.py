"""Provide attention layers and four ways to compute them: `math`, `sdpa`, `flex` and `ragged`."""

from plumbline.model.attention.flex import FLEX
from plumbline.model.attention.kernel import (
    MATH,
    SDPA,
    Kernel,
    Keys,
    attention_weights,
    key_mask,
    masked_by_channel,
    written_out,
)
from plumbline.model.attention.layers import Attention, AttentionLayer
from plumbline.model.attention.ragged import RAGGED

__all__ = [
    "FLEX",
    "MATH",
    "RAGGED",
    "SDPA",
    "Attention",
    "AttentionLayer",
    "Kernel",
    "Keys",
    "attention_weights",
    "key_mask",
    "masked_by_channel",
    "written_out",
]
