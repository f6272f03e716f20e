"""Define the spec of a network: kinds and widths, pruned widths included."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, PositiveInt, model_validator

from plumbline.model.position import Position, resolve_position
from plumbline.params import Model
from plumbline.params.model import AttentionKind, ConvolutionKind, PoolingKind
from plumbline.params.plugins import ATTENTION


class LayerSpec(BaseModel):
    """Widths of one attention layer."""

    model_config = ConfigDict(extra="forbid")
    inner: PositiveInt
    feedforward: PositiveInt
    heads: PositiveInt | None = None
    """Of this layer, where pruning took some; else as many as the network's `heads`."""


class NetworkSpec(BaseModel):
    """Everything needed to build a network, pruned ones with their own widths included.

    A field that came later has a default, the only kind there was before, so that older files can be read.
    """

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
            raise ValueError(f"attention: {self.attention} found, with {len(self.attention_layers)} attention layers")
        for layer in self.attention_layers:
            if layer.inner % self.heads_of(layer):
                raise ValueError(f"heads: {self.heads_of(layer)} found, must divide {layer.inner}")
        return self

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
