"""The two-stream network: distance and slope by convolution, joined by attention, pooled, judged with geometry.

Shape legend: B buildings, L scatterers, F features, D channels of both streams together.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Self, cast

import torch
from pydantic import BaseModel, ConfigDict, PositiveInt, model_validator
from torch import Tensor, nn

from plumbline.model.attention import AttentionLayer
from plumbline.model.pooling import masked_max, masked_mean
from plumbline.model.position import Position, build_position, resolve
from plumbline.model.stream import Stream
from plumbline.params import Model
from plumbline.prepare.features import DISTANCE, GEOMETRY, SLOPE


class LayerSpec(BaseModel):
    """Widths of one attention layer."""

    model_config = ConfigDict(extra="forbid")
    inner: PositiveInt
    feedforward: PositiveInt


class NetworkSpec(BaseModel):
    """Everything needed to build a network, pruned ones with their own widths included."""

    model_config = ConfigDict(extra="forbid")
    distance_channels: PositiveInt
    distance_hidden: list[PositiveInt]
    slope_channels: PositiveInt
    slope_hidden: list[PositiveInt]
    kernel: PositiveInt
    attention: Literal["none", "math", "sdpa"]
    attention_layers: list[LayerSpec]
    heads: PositiveInt
    max_attention_length: PositiveInt
    position: Position
    max_length: PositiveInt
    geometry_width: PositiveInt
    hidden: PositiveInt
    dropout: float

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        for layer in self.attention_layers:
            if layer.inner % self.heads:
                raise ValueError(f"heads: {self.heads} found, must divide {layer.inner}")
        return self


def new_spec(model: Model, max_length: int) -> NetworkSpec:
    """The unpruned network of a params section, for sequences up to `max_length`."""
    joined = 2 * model.channels
    layers = 0 if model.attention == "none" else model.attention_layers
    return NetworkSpec(
        distance_channels=model.channels,
        distance_hidden=[model.channels] * model.blocks,
        slope_channels=model.channels,
        slope_hidden=[model.channels] * model.blocks,
        kernel=model.kernel,
        attention=model.attention,
        attention_layers=[LayerSpec(inner=joined, feedforward=2 * joined)] * layers,
        heads=model.heads,
        max_attention_length=model.max_attention_length,
        position=resolve(model.position, max_length),
        max_length=max_length,
        geometry_width=model.hidden,
        hidden=model.hidden,
        dropout=model.dropout,
    )


class RawAnswer(NamedTuple):
    """What the network says before it is put into physical units."""

    logits_B4: Tensor
    """Quadrants, in the order of `compass.QUADRANTS`."""
    severity_B3: Tensor
    """Low, middle and high standardised severity, ascending."""


class Network(nn.Module):
    """Standardised inputs in, raw answers out. A building's answer depends on that building alone."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.spec = spec
        joined = spec.distance_channels + spec.slope_channels
        self.distance = Stream(len(DISTANCE), spec.distance_channels, spec.distance_hidden, spec.kernel)
        self.slope = Stream(len(SLOPE), spec.slope_channels, spec.slope_hidden, spec.kernel)
        self.position = build_position(spec.position, joined, spec.max_length) if spec.attention_layers else None
        self.attention = nn.ModuleList(
            AttentionLayer(joined, layer.inner, layer.feedforward, spec.heads, spec.attention, spec.dropout)
            for layer in spec.attention_layers
        )
        self.norm = nn.LayerNorm(joined)
        self.geometry = nn.Sequential(nn.Linear(len(GEOMETRY), spec.geometry_width), nn.GELU())
        # One layer for each part of what would be a long concatenation: the same sum, and each part can be pruned.
        self.join_mean = nn.Linear(joined, spec.hidden)
        self.join_max = nn.Linear(joined, spec.hidden, bias=False)
        self.join_geometry = nn.Linear(spec.geometry_width, spec.hidden, bias=False)
        self.dropout = nn.Dropout(spec.dropout)
        self.quadrant_head = nn.Linear(spec.hidden, 4)
        self.severity_head = nn.Linear(spec.hidden, 3)

    def forward(self, distance_BLF: Tensor, slope_BLF: Tensor, geometry_BF: Tensor, mask_BL: Tensor) -> RawAnswer:
        """Judge B buildings of up to L scatterers; what stands outside of `mask_BL` has no influence."""
        mask_BL1 = mask_BL[..., None]
        x_BLD = torch.cat([self.distance(distance_BLF, mask_BL1), self.slope(slope_BLF, mask_BL1)], dim=-1)
        if self.attention:
            x_BLD = self._attend(x_BLD, mask_BL)
        x_BLD = self.norm(x_BLD)
        joined = self.join_mean(masked_mean(x_BLD, mask_BL1)) + self.join_max(masked_max(x_BLD, mask_BL1))
        joined = self.dropout(nn.functional.gelu(joined + self.join_geometry(self.geometry(geometry_BF))))
        severity_B3: Tensor = self.severity_head(joined)
        middle_B1 = severity_B3[:, :1]
        # Widths are positive, so the three never cross.
        below_B1, above_B1 = nn.functional.softplus(severity_B3[:, 1:2]), nn.functional.softplus(severity_B3[:, 2:])
        severity_B3 = torch.cat([middle_B1 - below_B1, middle_B1, middle_B1 + above_B1], dim=-1)
        return RawAnswer(self.quadrant_head(joined), severity_B3)

    def _attend(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Attention within each building of up to `max_attention_length` scatterers; longer ones pass unchanged.

        A building's own length decides, not that of its batch.
        """
        most = self.spec.max_attention_length
        if self.spec.max_length > most:
            short_B11 = (mask_BL.sum(1) <= most)[:, None, None]
            attended_BLD = torch.where(short_B11, self._mix(x_BLD[:, :most], mask_BL[:, :most]), x_BLD[:, :most])
            return torch.cat([attended_BLD, x_BLD[:, most:]], dim=1)
        return self._mix(x_BLD, mask_BL)

    def _mix(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """The attention layers one after another, over positions."""
        if self.position is not None:
            x_BLD = x_BLD + self.position(x_BLD)
        for layer in self.attention:
            x_BLD = layer(x_BLD, mask_BL)
        return x_BLD


def spec_of(network: Network) -> NetworkSpec:
    """The spec with the widths that the layers have now; differs from `network.spec` after pruning."""
    layers = [cast(AttentionLayer, layer) for layer in network.attention]
    return network.spec.model_copy(
        update={
            "distance_channels": network.distance.stem.out_features,
            "distance_hidden": [block.first.out_channels for block in network.distance.blocks],  # type: ignore[union-attr]
            "slope_channels": network.slope.stem.out_features,
            "slope_hidden": [block.first.out_channels for block in network.slope.blocks],  # type: ignore[union-attr]
            "attention_layers": [
                LayerSpec(inner=layer.attention.value.out_features, feedforward=layer.widen.out_features)
                for layer in layers
            ],
            "geometry_width": cast(nn.Linear, network.geometry[0]).out_features,
            "hidden": network.join_mean.out_features,
        }
    )


def count_parameters(network: nn.Module) -> dict[str, int]:
    """Number of parameters of each part, and `total`."""
    parts = {name: sum(p.numel() for p in child.parameters()) for name, child in network.named_children()}
    return {**parts, "total": sum(parts.values())}
