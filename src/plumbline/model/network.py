"""Build the network: encoder, neck and heads.

Shape legend: B buildings, L scatterers, D channels.

Shape legend: B buildings, D channels, G width of the geometry, K levels of strain, M mechanisms.

Shape legend: B buildings, L scatterers, F features.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from plumbline.core.strain import LEVEL_EDGES_PERMILLE, MECHANISMS
from plumbline.model.attention import AttentionLayer
from plumbline.model.encoder import Encoder, run_checkpointed
from plumbline.model.pooling import PoolingLayer
from plumbline.model.spec import LayerSpec, NetworkSpec, build_position
from plumbline.prepare.features.definition import GEOMETRY


class Neck(nn.Module):
    """Positions and attention layers, if the spec has any, then a normalisation."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.recompute = spec.checkpoint_activations
        self.attention_limit = spec.attention_limit()
        channels = spec.distance_channels + spec.slope_channels
        self.position = (
            build_position(spec.position, channels, spec.max_length)
            if spec.attention_layers
            else None
        )
        self.attention = nn.ModuleList(
            AttentionLayer(
                channels,
                layer.inner,
                layer.feedforward,
                heads=spec.heads_of(layer),
                kind=spec.attention,
                dropout=spec.dropout,
            )
            for layer in spec.attention_layers
        )
        self.norm = nn.LayerNorm(channels)

    @property
    def layers(self) -> list[AttentionLayer]:
        """The attention layers."""
        return [cast(AttentionLayer, layer) for layer in self.attention]

    def forward(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Return features shaped as `x_BLD`; values outside of the mask never reach a
        position inside.

        Buildings of more than `max_attention_length` scatterers pass without attention. A
        building's own length decides, not that of its batch.
        """
        if self.attention and (limit := self.attention_limit) is not None:
            short_B11 = self.attends(mask_BL)[:, None, None]
            attended_BLD = torch.where(
                short_B11, self._mix(x_BLD[:, :limit], mask_BL[:, :limit]), x_BLD[:, :limit]
            )
            x_BLD = torch.cat([attended_BLD, x_BLD[:, limit:]], dim=1)
        elif self.attention:
            x_BLD = self._mix(x_BLD, mask_BL)
        normal_BLD: Tensor = self.norm(x_BLD)
        return normal_BLD

    def attends(self, mask_BL: Tensor) -> Tensor:
        """Return (B,) whether each building is short enough for attention."""
        length_B = mask_BL.sum(1)
        return (
            length_B <= self.attention_limit if self.attention_limit is not None else length_B > 0
        )

    def _mix(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Apply the attention layers one after another, after adding positions."""
        if self.position is not None:
            x_BLD = x_BLD + self.position(x_BLD)
        keys = self.layers[0].attention.kernel.keys(mask_BL)
        for layer in self.attention:
            x_BLD = run_checkpointed(layer, x_BLD, keys, recompute=self.recompute)
        return x_BLD


class RawAnswer(NamedTuple):
    """The network's answer before conversion to physical units."""

    logits_B4: Tensor
    """Quadrants, in the order of `compass.QUADRANTS`."""
    severity_B3: Tensor
    """Low, middle and high standardised severity, ascending."""
    accepted_B4: Tensor
    """Log odds that each quadrant is a right answer."""
    levels_BK: Tensor
    """Levels of strain, see `strain.LEVEL_EDGES_PERMILLE`."""
    mechanism_BM: Tensor
    """Mechanisms, in the order of `strain.MECHANISMS`."""


class Heads(nn.Module):
    """Layers that join a building's pooled scatterers and geometry, and judge it."""

    def __init__(
        self, channels: int, looks: int, geometry_width: int, hidden: int, dropout: float
    ) -> None:
        super().__init__()
        # One layer for each part of what would be a long concatenation: the same sum, and
        # each part can be pruned.
        self.join_pooled = nn.ModuleList(
            nn.Linear(channels, hidden, bias=i == 0) for i in range(looks)
        )
        self.join_geometry = nn.Linear(geometry_width, hidden, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.quadrant_head = nn.Linear(hidden, 4)
        self.severity_head = nn.Linear(hidden, 3)
        self.accepted_head = nn.Linear(hidden, 4)
        self.level_head = nn.Linear(hidden, len(LEVEL_EDGES_PERMILLE) + 1)
        self.mechanism_head = nn.Linear(hidden, len(MECHANISMS))

    def forward(self, pooled: list[Tensor], geometry_BG: Tensor) -> RawAnswer:
        """Judge B buildings by what each look of the pooling gave, (B, D), and by their
        geometry."""
        parts = [join(look_BD) for join, look_BD in zip(self.join_pooled, pooled, strict=True)]
        joined = sum(parts[1:], start=parts[0]) + self.join_geometry(geometry_BG)
        joined = self.dropout(nn.functional.gelu(joined))
        severity_B3: Tensor = self.severity_head(joined)
        middle_B1 = severity_B3[:, :1]
        # Widths are positive, so the three never cross.
        below_B1, above_B1 = (
            nn.functional.softplus(severity_B3[:, 1:2]),
            nn.functional.softplus(severity_B3[:, 2:]),
        )
        severity_B3 = torch.cat([middle_B1 - below_B1, middle_B1, middle_B1 + above_B1], dim=-1)
        return RawAnswer(
            self.quadrant_head(joined),
            severity_B3,
            self.accepted_head(joined),
            self.level_head(joined),
            self.mechanism_head(joined),
        )

    @property
    def last(self) -> list[nn.Linear]:
        """Return the layers that give the answers; pruning leaves them."""
        return [
            self.quadrant_head,
            self.severity_head,
            self.accepted_head,
            self.level_head,
            self.mechanism_head,
        ]


class Network(nn.Module):
    """Standardised inputs in, raw answers out. A building's answer depends on that building
    alone."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.spec = spec
        joined = spec.distance_channels + spec.slope_channels
        self.encoder = Encoder(spec)
        self.neck = Neck(spec)
        self.pool = PoolingLayer(spec.pooling, joined)
        self.geometry = nn.Sequential(nn.Linear(len(GEOMETRY), spec.geometry_width), nn.GELU())
        self.heads = Heads(
            joined, len(self.pool.looks), spec.geometry_width, spec.hidden, spec.dropout
        )

    def forward(
        self, distance_BLF: Tensor, slope_BLF: Tensor, geometry_BF: Tensor, mask_BL: Tensor
    ) -> RawAnswer:
        """Judge B buildings of up to L scatterers; values outside of `mask_BL` have no
        influence."""
        x_BLD = self.neck(self.encoder(distance_BLF, slope_BLF, mask_BL), mask_BL)
        answer: RawAnswer = self.heads(self.pool(x_BLD, mask_BL), self.geometry(geometry_BF))
        return answer


def spec_of(network: Network) -> NetworkSpec:
    """Return the spec with the present widths of the layers; after pruning it differs from
    `network.spec`."""
    distance, slope = network.encoder.distance, network.encoder.slope
    return network.spec.model_copy(
        update={
            "distance_channels": distance.stem.out_features,
            "distance_hidden": distance.hidden,
            "slope_channels": slope.stem.out_features,
            "slope_hidden": slope.hidden,
            "attention_layers": [
                LayerSpec(
                    inner=layer.attention.value.out_features,
                    feedforward=layer.widen.out_features,
                    heads=None
                    if layer.attention.heads == network.spec.heads
                    else layer.attention.heads,
                )
                for layer in network.neck.layers
            ],
            "geometry_width": cast(nn.Linear, network.geometry[0]).out_features,
            "hidden": network.heads.join_geometry.out_features,
        }
    )


def count_parameters(network: nn.Module) -> dict[str, int]:
    """Count the parameters of each part, as `encoder.slope` or `geometry`, and in `total`.

    Parts without parameters are left out.
    """
    parts: dict[str, int] = {}
    for name, parameter in network.named_parameters():
        part = ".".join(word for word in name.split(".")[:2] if not word.isdigit())
        parts[part] = parts.get(part, 0) + parameter.numel()
    return {**parts, "total": sum(parts.values())}
