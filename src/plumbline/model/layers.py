"""Define layers that several parts share: a linear layer, dropout, and activation checkpointing.

Shape legend: B buildings, L scatterers, C channels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Linear(nn.Linear):
    """`nn.Linear` for sequences; exported as a product of two matrices, so that runtimes fuse it with the bias.

    A product of a matrix with a stack of them leaves the bias to a pass of its own over all places.
    """

    def forward(self, x_BLC: Tensor) -> Tensor:
        """Return features (B, L, channels out)."""
        if not torch.compiler.is_exporting():
            return super().forward(x_BLC)
        batch, length, _ = x_BLC.shape
        return super().forward(x_BLC.flatten(0, 1)).view(batch, length, self.out_features)


LEVELS = 1 << 16
"""Values of one draw."""


class Dropout(nn.Dropout):
    """`nn.Dropout` (Srivastava et al. 2014); on a CPU, each random number gives four draws of 16 bits.

    torch draws the values on a CPU one by one, which takes longer than the layer whose outputs they are. The
    probability is rounded to a multiple of `1 / LEVELS`, and the scale is that of the rounded one, so that the mean
    stays.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` of any shape; in training, some values become 0 and the others larger."""
        drawn_by_torch = x.device.type != "cpu" or torch.compiler.is_compiling()
        if not self.training or not self.p or drawn_by_torch:
            return super().forward(x)
        left_out = min(round(self.p * LEVELS), LEVELS - 1)
        count = x.numel()
        words = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
        draws = words.view(torch.int16)[:count].view(x.shape)
        kept = (draws >= left_out - LEVELS // 2).to(x.dtype)
        return x * (kept * (LEVELS / (LEVELS - left_out)))


def run_checkpointed(part: nn.Module, *inputs: Any, recompute: bool) -> Tensor:
    """Return `part(*inputs)`; with `recompute`, drop its intermediate values and compute them again for the gradients.

    Without training there are no gradients to save memory for: evaluation and export never recompute.
    """
    if recompute and part.training and torch.is_grad_enabled():
        # Random numbers are set back for the second pass, so that dropout leaves out the same values.
        kept: Tensor = checkpoint(part, *inputs, use_reentrant=False)
        return kept
    result: Tensor = part(*inputs)
    return result
