"""Define section `model`."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from plumbline.params.plugins import ATTENTION, CONVOLUTION, POOLING, POSITION
from plumbline.params.section import Section

AttentionKind = Annotated[str, ATTENTION.name()]
ConvolutionKind = Annotated[str, CONVOLUTION.name()]
PoolingKind = Annotated[str, POOLING.name()]
BY_LENGTH = "auto"
PositionKind = Annotated[str, POSITION.name(BY_LENGTH)]


class Model(Section):
    """The two-stream network."""

    channels: int = Field(default=48, ge=4, le=1024)
    """Channels of each convolution stream."""
    blocks: int = Field(default=2, ge=1, le=16)
    """Convolution blocks a stream."""
    kernel: int = Field(default=3, ge=1, le=31)
    convolution: ConvolutionKind = "plain"
    """`separable`: along the sequence and across channels apart, with a fraction of the weights."""
    heads: int = Field(default=4, ge=1, le=64)
    attention: AttentionKind = "sdpa"
    """How attention is computed; all but `none` have the same weights and answers. `flex` and `ragged` (for many
    short buildings) are for GPUs, and are exported as `sdpa`."""
    attention_layers: int = Field(default=1, ge=0, le=16)
    max_attention_length: int = Field(default=1024, ge=1)
    """Sequences longer than this pass without attention."""
    position: PositionKind = "auto"
    """Position in the sequence; `auto`: learned up to 64, sinusoidal for longer `prepare.max_points`."""
    pooling: PoolingKind = "mean_max"
    """From scatterers to a building: means, largest values, standard deviations, or a mean with learned weights."""
    hidden: int = Field(default=96, ge=4, le=4096)
    """Width of the layer before the heads."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    checkpoint_activations: bool = False
    """Training computes what is within blocks and attention layers again for the gradients instead of keeping it: less
    memory for the time of one more pass forward, same results."""

    @model_validator(mode="after")
    def _kernel_is_odd(self) -> Self:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel: {self.kernel} found, must be odd")
        if (2 * self.channels) % self.heads:
            raise ValueError(f"heads: {self.heads} found, must divide twice model.channels ({2 * self.channels})")
        return self
