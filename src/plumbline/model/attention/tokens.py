"""Say which tokens belong together: buildings of any lengths, one after another.

A token is a scatterer. Those of a building are neighbours; between two buildings there may be padding.

Shape legend: B buildings, L places in a row, T tokens with padding, P tokens without, S offsets (B + 1).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Packed(NamedTuple):
    """The tokens without padding, as torch's `varlen_attn` wants them."""

    token_P: Tensor
    """Which of all tokens, int64."""
    offset_S: Tensor
    """Where each building begins and the last ends, int32."""
    longest: int
    """No building has more tokens."""


class Tokens(NamedTuple):
    """For each token, the tokens of its building: `begin` to `end - 1`; padding has 0 and 0."""

    begin_T: Tensor
    """int32"""
    end_T: Tensor
    """int32"""
    packed: Packed | None = None
    """For kernels of long sequences, where they run."""


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
    """Describe a padded batch as it lies in memory, without moving it or waiting for lengths.

    Args:
        mask_BL: true where there is a scatterer, which is in the first places of a row.

    Returns:
        Tokens: T is B times L.
    """
    batch, length = mask_BL.shape
    begin_B1 = torch.arange(batch, device=mask_BL.device, dtype=torch.int32)[:, None] * length
    end_B1 = begin_B1 + mask_BL.sum(1, keepdim=True, dtype=torch.int32)
    return Tokens(begin_T=(begin_B1 * mask_BL).flatten(), end_T=(end_B1 * mask_BL).flatten())


def pack(mask_BL: Tensor) -> Packed:
    """List the scatterers of a padded batch; on a GPU the process waits for their number."""
    offset_S = torch.nn.functional.pad(mask_BL.sum(1).cumsum(0), (1, 0)).int()
    return Packed(token_P=mask_BL.flatten().nonzero()[:, 0], offset_S=offset_S, longest=mask_BL.shape[1])
