"""A layer at each place of a sequence.

Shape legend: B buildings, L scatterers, C channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Linear(nn.Linear):
    """As `nn.Linear`, of sequences. Exported as a product of two matrices, which runtimes add the bias to as they go.

    A product of a matrix with a stack of them leaves the bias to a pass of its own over all places.
    """

    def forward(self, x_BLC: Tensor) -> Tensor:
        """(B, L, channels out)."""
        if not torch.compiler.is_exporting():
            return super().forward(x_BLC)
        batch, length, _ = x_BLC.shape
        return super().forward(x_BLC.flatten(0, 1)).view(batch, length, self.out_features)
