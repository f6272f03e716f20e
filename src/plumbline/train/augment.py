"""The eight symmetries of the building compass: a mirrored house with mirrored damage is as good an example."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
from torch import Tensor

from plumbline.prepare.features import DISTANCE, GEOMETRY, SLOPE, Column, names, quadrant_symmetry, symmetry
from plumbline.train.batches import Batch

SIDE_X, SIDE_Y = names(GEOMETRY).index("side_x"), names(GEOMETRY).index("side_y")
X, Y = names(DISTANCE).index("x"), names(DISTANCE).index("y")


class Symmetry(NamedTuple):
    """Mirror along x, mirror along y, then swap the axes."""

    mirror_x: bool
    mirror_y: bool
    swap: bool


SYMMETRIES = tuple(Symmetry(*flags) for flags in itertools.product((False, True), repeat=3))


def apply_symmetry(batch: Batch, which: Symmetry) -> Batch:
    """The same buildings in the other frame; sequences still run along the long axis."""
    reverse_B = torch.where(_runs_along_x(batch), which.mirror_x, which.mirror_y)
    turned_4 = torch.from_numpy(quadrant_symmetry(*which)).to(batch.quadrant_B.device)
    return Batch(
        _reverse(_turn(batch.distance_BLF, DISTANCE, which), batch.mask_BL, reverse_B),
        _reverse(_turn(batch.slope_BLF, SLOPE, which), batch.mask_BL, reverse_B),
        _turn(batch.geometry_BF, GEOMETRY, which),
        batch.mask_BL,
        batch.severity_B,
        torch.where(batch.quadrant_B >= 0, turned_4[batch.quadrant_B.clamp(min=0)], batch.quadrant_B),
        batch.weight_B,
    )


def turn(batch: Batch, choice_B: Tensor) -> Batch:
    """Each building in the frame `SYMMETRIES[choice_B]`; the order of the buildings changes."""
    parts = []
    for i, which in enumerate(SYMMETRIES):
        rows = choice_B == i
        if rows.any():
            parts.append(apply_symmetry(Batch(*(tensor[rows] for tensor in batch)), which))
    return Batch(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))


def _runs_along_x(batch: Batch) -> Tensor:
    """(B,) whether the sequence runs along x: the longer side, and on a square the axis that it is in order of."""
    side_x_B, side_y_B = batch.geometry_BF[:, SIDE_X], batch.geometry_BF[:, SIDE_Y]
    beyond_BL = ~batch.mask_BL[:, 1:]
    along_x_B, along_y_B = ((beyond_BL | (batch.distance_BLF[..., axis].diff(dim=1) >= 0)).all(1) for axis in (X, Y))
    return (side_x_B > side_y_B) | ((side_x_B == side_y_B) & (along_x_B | ~along_y_B))


def _turn(values: Tensor, columns: tuple[Column, ...], which: Symmetry) -> Tensor:
    source, sign = symmetry(columns, *which)
    return values[..., torch.from_numpy(source).to(values.device)] * torch.from_numpy(sign).to(values.device)


def _reverse(values_BLF: Tensor, mask_BL: Tensor, reverse_B: Tensor) -> Tensor:
    """Reverse the valid part of the sequences where `reverse_B`; padding stays at the end."""
    place_BL = torch.arange(mask_BL.shape[1], device=mask_BL.device).expand(mask_BL.shape)
    backward_BL = (mask_BL.sum(1, keepdim=True) - 1 - place_BL) % mask_BL.shape[1]
    source_BL = torch.where(reverse_B[:, None] & mask_BL, backward_BL, place_BL)
    return values_BLF.gather(1, source_BL[..., None].expand(values_BLF.shape))
