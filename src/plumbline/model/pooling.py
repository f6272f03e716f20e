"""Pool a sequence of any length to fixed vectors, over the mask only, as plug-ins.

Shape legend: B buildings, L scatterers, D channels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import cast

import torch
from torch import Tensor, nn

from plumbline.params.plugins import POOLING


def masked_mean(x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
    """Return the mean (B, D) over the scatterers of each building; each needs at least one."""
    return (x_BLD * mask_BL1).sum(1) / mask_BL1.to(x_BLD.dtype).sum(1)


def masked_max(x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
    """Return the largest value (B, D) over the scatterers of each building."""
    # Lowered, not filled, which is slow in ONNX Runtime; by half of the range, so that no sum
    # passes the end.
    lowered_BL1 = (1 - mask_BL1.to(x_BLD.dtype)) * (torch.finfo(x_BLD.dtype).min / 2)
    return (x_BLD + lowered_BL1).amax(1)


class Look(nn.Module, ABC):
    """One way to pool a building: one vector, and the share of each scatterer in it."""

    def __init__(self, channels: int) -> None:
        super().__init__()

    @abstractmethod
    def forward(self, x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
        """(B, D)."""

    @abstractmethod
    def share(self, x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
        """Return the share (B, L) of each scatterer in the vector, averaged over channels;
        they add up to 1."""


class Mean(Look):
    """The mean scatterer."""

    def forward(self, x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
        """(B, D)."""
        return masked_mean(x_BLD, mask_BL1)

    def share(self, x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
        """Return equal shares."""
        one_BL = mask_BL1[..., 0].to(x_BLD.dtype)
        return one_BL / one_BL.sum(1, keepdim=True)


class Max(Look):
    """The largest value of each channel."""

    def forward(self, x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
        """(B, D)."""
        return masked_max(x_BLD, mask_BL1)

    def share(self, x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
        """Return the share of channels in which a scatterer is the largest; ties divide a
        channel."""
        largest_BLD = ((x_BLD == masked_max(x_BLD, mask_BL1)[:, None]) & mask_BL1).to(x_BLD.dtype)
        return (largest_BLD / largest_BLD.sum(1, keepdim=True)).mean(-1)


class Deviation(Look):
    """Standard deviation of each channel (statistics pooling: Snyder et al. 2018)."""

    def forward(self, x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
        """(B, D)."""
        squares_BLD = (x_BLD - masked_mean(x_BLD, mask_BL1)[:, None]).square()
        # A lone scatterer has none, and the root's slope at 0 is infinite.
        return (masked_mean(squares_BLD, mask_BL1) + 1e-5).sqrt()

    def share(self, x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
        """Return the share of the squared deviation, averaged over channels."""
        squares_BLD = (
            x_BLD - masked_mean(x_BLD, mask_BL1)[:, None]
        ).square() * mask_BL1 + 1e-5 * mask_BL1
        return (squares_BLD / squares_BLD.sum(1, keepdim=True)).mean(-1)


class Attended(Look):
    """Mean weighted by a score that is learned (attention pooling: Lin et al. 2017, with one
    hop)."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        # Zeros begin as the plain mean. A bias would move all scores alike and change nothing.
        self.query = nn.Parameter(torch.zeros(channels))

    def forward(self, x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
        """(B, D)."""
        return (self._weight(x_BLD, mask_BL1) * x_BLD).sum(1)

    def share(self, x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
        """Return the learned weights."""
        return self._weight(x_BLD, mask_BL1)[..., 0]

    def _weight(self, x_BLD: Tensor, mask_BL1: Tensor) -> Tensor:
        score_BL1 = (x_BLD * self.query).sum(-1, keepdim=True)
        return score_BL1.masked_fill(~mask_BL1, torch.finfo(score_BL1.dtype).min).softmax(1)


MEAN_MAX, MEAN_DEVIATION = (Mean, Max), (Mean, Deviation)


class PoolingLayer(nn.Module):
    """All looks of one pooling."""

    def __init__(self, kind: str, channels: int) -> None:
        super().__init__()
        looks: type[Look] | tuple[type[Look], ...] = POOLING[kind]
        self.looks = nn.ModuleList(
            look(channels) for look in (looks if isinstance(looks, tuple) else (looks,))
        )

    def forward(self, x_BLD: Tensor, mask_BL: Tensor) -> list[Tensor]:
        """Return one vector (B, D) for each look."""
        return [look(x_BLD, mask_BL[..., None]) for look in self.looks]

    def share(self, x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
        """Return the mean share (B, L) of each scatterer in the looks; they add up to 1,
        with 0 outside of the mask."""
        shares = [cast(Look, look).share(x_BLD, mask_BL[..., None]) for look in self.looks]
        return torch.stack(shares).mean(0)
