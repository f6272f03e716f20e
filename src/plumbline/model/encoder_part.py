"""The encoder: what each scatterer and its neighbours say, distance and slope apart.

Shape legend: B buildings, L scatterers, F features, D channels of both streams together.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from plumbline.model.encoder import Stream
from plumbline.model.spec import NetworkSpec
from plumbline.prepare.features.definition import DISTANCE, SLOPE


class Encoder(nn.Module):
    """Two convolution streams, side by side."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        kinds = (spec.kernel, spec.convolution, spec.checkpoint_activations)
        self.distance = Stream(len(DISTANCE), spec.distance_channels, spec.distance_hidden, *kinds)
        self.slope = Stream(len(SLOPE), spec.slope_channels, spec.slope_hidden, *kinds)

    def forward(self, distance_BLF: Tensor, slope_BLF: Tensor, mask_BL: Tensor) -> Tensor:
        """(B, L, D), zero outside of the mask."""
        mask_BL1 = mask_BL[..., None]
        return torch.cat([self.distance(distance_BLF, mask_BL1), self.slope(slope_BLF, mask_BL1)], dim=-1)
