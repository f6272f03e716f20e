"""Dropout whose random numbers cost little on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LEVELS = 1 << 16
"""Values of one draw."""


class Dropout(nn.Dropout):
    """As `nn.Dropout` (Srivastava et al. 2014), on a CPU with draws of 16 bits, four of each random number.

    torch draws the values on a CPU one by one, which takes longer than the layer whose outputs they are. The
    probability is rounded to a multiple of `1 / LEVELS`, and the scale is that of the rounded one, so that the mean
    stays.
    """

    def forward(self, x: Tensor) -> Tensor:
        """`x` of any shape; in training some values are 0 and the others larger."""
        drawn_by_torch = x.device.type != "cpu" or torch.compiler.is_compiling()
        if not self.training or not self.p or drawn_by_torch:
            return super().forward(x)
        left_out = min(round(self.p * LEVELS), LEVELS - 1)
        count = x.numel()
        words = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
        draws = words.view(torch.int16)[:count].view(x.shape)
        kept = (draws >= left_out - LEVELS // 2).to(x.dtype)
        return x * (kept * (LEVELS / (LEVELS - left_out)))
