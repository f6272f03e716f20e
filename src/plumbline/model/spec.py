"""State what a network is built from, and the codes of positions.

The code is narrow so that positions stay a small share of the parameters at any length.
"""

from __future__ import annotations

from typing import Annotated, Self

import torch
from pydantic import BaseModel, ConfigDict, PositiveInt, model_validator
from torch import Tensor, nn

from plumbline.params import Model
from plumbline.params.plugins import ATTENTION, POSITION
from plumbline.params.train import (
    BY_LENGTH,
    AttentionKind,
    ConvolutionKind,
    PoolingKind,
    PositionKind,
)

Position = Annotated[str, POSITION.name()]
WIDTH = 16
LONGEST_LEARNED = 64
"""Largest length up to which `auto` learns positions; beyond it they are computed."""


class Sinusoidal(nn.Module):
    """Sines and cosines of geometric wavelengths (Vaswani et al. 2017, section 3.5), for
    any length."""

    any_length = True
    """The code of a place does not depend on `max_length`; without this attribute it does."""

    def __init__(self, channels: int, max_length: int | None = None) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, channels)
        self.register_buffer(
            "rate", 1000.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH), persistent=False
        )

    def forward(self, x_BLD: Tensor) -> Tensor:
        """(L, D) code for the length of `x_BLD`."""
        angle = torch.arange(x_BLD.shape[1], device=x_BLD.device).to(x_BLD.dtype)[
            :, None
        ] * self.get_buffer("rate")
        code: Tensor = self.project(torch.cat([angle.sin(), angle.cos()], dim=-1))
        return code


class Learned(nn.Module):
    """A learned code for each place up to `max_length`."""

    def __init__(self, channels: int, max_length: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_length, WIDTH)
        self.project = nn.Linear(WIDTH, channels)

    def forward(self, x_BLD: Tensor) -> Tensor:
        """(L, D) code for the length of `x_BLD`."""
        # Beyond the table there is padding only, which may take any code.
        place = torch.arange(x_BLD.shape[1], device=x_BLD.device).clamp(
            max=self.table.num_embeddings - 1
        )
        code: Tensor = self.project(self.table(place))
        return code


def resolve_position(kind: PositionKind, max_length: int) -> Position:
    """Resolve `auto` to `learned` or `sinusoidal`."""
    if kind == BY_LENGTH:
        return "learned" if max_length <= LONGEST_LEARNED else "sinusoidal"
    return kind


def build_position(kind: Position, channels: int, max_length: int) -> nn.Module | None:
    """Build the plug-in with the name `kind`; None for `none`."""
    plugin = POSITION[kind]
    module: nn.Module | None = plugin and plugin(channels, max_length)
    return module


class LayerSpec(BaseModel):
    """Widths of one attention layer."""

    model_config = ConfigDict(extra="forbid")
    inner: PositiveInt
    feedforward: PositiveInt
    heads: PositiveInt | None = None
    """Number of heads of this layer, where pruning removed some; else `heads` of the network."""


class NetworkSpec(BaseModel):
    """Everything needed to build a network, pruned ones with their own widths included."""

    model_config = ConfigDict(extra="forbid")
    distance_channels: PositiveInt
    distance_hidden: list[PositiveInt]
    slope_channels: PositiveInt
    slope_hidden: list[PositiveInt]
    kernel: PositiveInt
    convolution: ConvolutionKind = "plain"
    attention: AttentionKind
    attention_layers: list[LayerSpec]
    heads: PositiveInt
    max_attention_length: PositiveInt
    position: Position
    max_length: PositiveInt
    pooling: PoolingKind = "mean_max"
    geometry_width: PositiveInt
    hidden: PositiveInt
    dropout: float
    checkpoint_activations: bool = False

    @model_validator(mode="after")
    def _attention_fits(self) -> Self:
        if self.attention_layers and ATTENTION[self.attention] is None:
            raise ValueError(
                f"attention: {self.attention} found, with {len(self.attention_layers)} attention "
                "layers"
            )
        for layer in self.attention_layers:
            if layer.inner % self.heads_of(layer):
                raise ValueError(f"heads: {self.heads_of(layer)} found, must divide {layer.inner}")
        return self

    def attention_limit(self) -> int | None:
        """Return the largest number of scatterers with attention; None if no sequence is longer."""
        return self.max_attention_length if self.max_length > self.max_attention_length else None

    def heads_of(self, layer: LayerSpec) -> int:
        """Return the number of heads of one attention layer."""
        return layer.heads or self.heads


def new_spec(model: Model, max_length: int) -> NetworkSpec:
    """Return the unpruned network of a params section, for sequences up to `max_length`."""
    joined = 2 * model.channels
    layers = 0 if ATTENTION[model.attention] is None else model.attention_layers
    return NetworkSpec(
        distance_channels=model.channels,
        distance_hidden=[model.channels] * model.blocks,
        slope_channels=model.channels,
        slope_hidden=[model.channels] * model.blocks,
        kernel=model.kernel,
        convolution=model.convolution,
        attention=model.attention,
        attention_layers=[LayerSpec(inner=joined, feedforward=2 * joined)] * layers,
        heads=model.heads,
        max_attention_length=model.max_attention_length,
        position=resolve_position(model.position, max_length),
        max_length=max_length,
        pooling=model.pooling,
        geometry_width=model.hidden,
        hidden=model.hidden,
        dropout=model.dropout,
        checkpoint_activations=model.checkpoint_activations,
    )
