"""Define the heads: from pooled scatterers and geometry to where, how much and how a building is damaged.

Shape legend: B buildings, D channels, G width of the geometry, K levels of strain, M mechanisms.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from plumbline.core.strain import LEVEL_EDGES_PERMILLE, MECHANISMS


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
    """In the order of `strain.MECHANISMS`."""


class Heads(nn.Module):
    """Layers that join a building's pooled scatterers and geometry, and judge it."""

    def __init__(self, channels: int, looks: int, geometry_width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        # One layer for each part of what would be a long concatenation: the same sum, and each part can be pruned.
        self.join_pooled = nn.ModuleList(nn.Linear(channels, hidden, bias=i == 0) for i in range(looks))
        self.join_geometry = nn.Linear(geometry_width, hidden, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.quadrant_head = nn.Linear(hidden, 4)
        self.severity_head = nn.Linear(hidden, 3)
        self.accepted_head = nn.Linear(hidden, 4)
        self.level_head = nn.Linear(hidden, len(LEVEL_EDGES_PERMILLE) + 1)
        self.mechanism_head = nn.Linear(hidden, len(MECHANISMS))

    def forward(self, pooled: list[Tensor], geometry_BG: Tensor) -> RawAnswer:
        """Judge B buildings by what each look of the pooling gave, (B, D), and by their geometry."""
        first, *others = (join(look_BD) for join, look_BD in zip(self.join_pooled, pooled, strict=True))
        joined = sum(others, start=first) + self.join_geometry(geometry_BG)
        joined = self.dropout(nn.functional.gelu(joined))
        severity_B3: Tensor = self.severity_head(joined)
        middle_B1 = severity_B3[:, :1]
        # Widths are positive, so the three never cross.
        below_B1, above_B1 = nn.functional.softplus(severity_B3[:, 1:2]), nn.functional.softplus(severity_B3[:, 2:])
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
        return [self.quadrant_head, self.severity_head, self.accepted_head, self.level_head, self.mechanism_head]
