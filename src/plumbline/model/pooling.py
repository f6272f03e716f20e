"""From a sequence of any length to fixed vectors, over the mask only.

Shape legend: B buildings, L scatterers, D channels.
"""

from __future__ import annotations

import torch
from torch import Tensor


def masked_mean(x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
    """(B, D) mean over the scatterers of each building; each needs one at least."""
    return (x_BLD * mask_BL1).sum(1) / mask_BL1.to(x_BLD.dtype).sum(1)


def masked_max(x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
    """(B, D) largest value over the scatterers of each building."""
    return x_BLD.masked_fill(~mask_BL1, torch.finfo(x_BLD.dtype).min).amax(1)
