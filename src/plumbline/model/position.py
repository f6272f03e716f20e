"""Encode a scatterer's place in the sequence, as plug-ins; a narrow code is projected to the channels.

The code is narrow so that positions stay a small share of the parameters at any length.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from plumbline.params.model import BY_LENGTH, PositionKind
from plumbline.params.plugins import POSITION

Position = Annotated[str, POSITION.name()]
WIDTH = 16
LONGEST_LEARNED = 64
"""`auto` learns positions up to this length and computes them beyond."""


class Sinusoidal(nn.Module):
    """Sines and cosines of geometric wavelengths (Vaswani et al. 2017, section 3.5), for any length."""

    any_length = True
    """The code of a place does not depend on `max_length`; without this word it is taken to."""

    def __init__(self, channels: int, max_length: int | None = None) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, channels)
        self.register_buffer("rate", 1000.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH), persistent=False)

    def forward(self, x_BLD: Tensor) -> Tensor:
        """(L, D) code for the length of `x_BLD`."""
        angle = torch.arange(x_BLD.shape[1], device=x_BLD.device).to(x_BLD.dtype)[:, None] * self.get_buffer("rate")
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
        place = torch.arange(x_BLD.shape[1], device=x_BLD.device).clamp(max=self.table.num_embeddings - 1)
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
    built: nn.Module | None = plugin and plugin(channels, max_length)
    return built
