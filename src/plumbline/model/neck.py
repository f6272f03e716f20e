"""Define the neck, in which the scatterers of a building look at each other.

Shape legend: B buildings, L scatterers, D channels.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from plumbline.model.attention import AttentionLayer
from plumbline.model.layers import run_checkpointed
from plumbline.model.position import build_position
from plumbline.model.spec import NetworkSpec


class Neck(nn.Module):
    """Positions and attention layers, if the spec has any, then a normalisation."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.recompute = spec.checkpoint_activations
        self.most = spec.max_attention_length if spec.max_length > spec.max_attention_length else None
        channels = spec.distance_channels + spec.slope_channels
        self.position = build_position(spec.position, channels, spec.max_length) if spec.attention_layers else None
        self.attention = nn.ModuleList(
            AttentionLayer(channels, layer.inner, layer.feedforward, spec.heads_of(layer), spec.attention, spec.dropout)
            for layer in spec.attention_layers
        )
        self.norm = nn.LayerNorm(channels)

    @property
    def layers(self) -> list[AttentionLayer]:
        """The attention layers."""
        return [cast(AttentionLayer, layer) for layer in self.attention]

    def forward(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Return features shaped as `x_BLD`; values outside of the mask never reach a position inside.

        Buildings of more than `max_attention_length` scatterers pass without attention. A building's own length
        decides, not that of its batch.
        """
        if self.attention and (most := self.most) is not None:
            short_B11 = self.attends(mask_BL)[:, None, None]
            attended_BLD = torch.where(short_B11, self._mix(x_BLD[:, :most], mask_BL[:, :most]), x_BLD[:, :most])
            x_BLD = torch.cat([attended_BLD, x_BLD[:, most:]], dim=1)
        elif self.attention:
            x_BLD = self._mix(x_BLD, mask_BL)
        normal_BLD: Tensor = self.norm(x_BLD)
        return normal_BLD

    def attends(self, mask_BL: Tensor) -> Tensor:
        """Return (B,) whether each building is short enough for attention."""
        length_B = mask_BL.sum(1)
        return length_B <= self.most if self.most is not None else length_B > 0

    def _mix(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Apply the attention layers one after another, after adding positions."""
        if self.position is not None:
            x_BLD = x_BLD + self.position(x_BLD)
        keys = self.layers[0].attention.kernel.keys(mask_BL)
        for layer in self.attention:
            x_BLD = run_checkpointed(layer, x_BLD, keys, recompute=self.recompute)
        return x_BLD
