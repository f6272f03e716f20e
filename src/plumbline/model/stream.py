"""One stream of 1-D convolution that padding never reaches.

Shape legend: B buildings, L scatterers, F features, C channels.
"""

from __future__ import annotations

from torch import Tensor, nn


class Block(nn.Module):
    """Two convolutions along the sequence, added to what came in.

    The mask is applied before each convolution, because a normalisation's bias and a convolution's overlap would
    otherwise carry values from beyond the end of one building's sequence back into it.
    """

    def __init__(self, channels: int, hidden: int, kernel: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.first = nn.Conv1d(channels, hidden, kernel, padding=kernel // 2)
        self.second = nn.Conv1d(hidden, channels, kernel, padding=kernel // 2)

    def forward(self, x_BLC: Tensor, mask_BL1: Tensor) -> Tensor:
        """Same shape as `x_BLC`, zero outside of the mask."""
        mask_B1L = mask_BL1.transpose(1, 2)
        x_BCL = (self.norm(x_BLC) * mask_BL1).transpose(1, 2)
        x_BCL = nn.functional.gelu(self.first(x_BCL)) * mask_B1L
        added_BLC: Tensor = (self.second(x_BCL) * mask_B1L).transpose(1, 2)
        return x_BLC + added_BLC


class Stream(nn.Module):
    """Features of each scatterer to channels, then blocks along the sequence."""

    def __init__(self, features: int, channels: int, hidden: list[int], kernel: int) -> None:
        super().__init__()
        self.stem = nn.Linear(features, channels)
        self.blocks = nn.ModuleList(Block(channels, width, kernel) for width in hidden)
        self.norm = nn.LayerNorm(channels)

    def forward(self, x_BLF: Tensor, mask_BL1: Tensor) -> Tensor:
        """(B, L, C), zero outside of the mask."""
        # Filled, not multiplied: a value in the padding may be infinite, and 0 times infinity is no number.
        x_BLC: Tensor = self.stem(x_BLF.masked_fill(~mask_BL1, 0)) * mask_BL1
        for block in self.blocks:
            x_BLC = block(x_BLC, mask_BL1)
        result: Tensor = self.norm(x_BLC) * mask_BL1
        return result
