"""Turn and mirror buildings by the eight symmetries of the compass: mirrored buildings are equally good examples."""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, Column, names, quadrant_symmetry, symmetry
from plumbline.train.data.batches import Batch

SIDE_X, SIDE_Y = names(GEOMETRY).index("side_x"), names(GEOMETRY).index("side_y")
X, Y = names(DISTANCE).index("x"), names(DISTANCE).index("y")


class Symmetry(NamedTuple):
    """Mirror along x, mirror along y, then swap the axes."""

    mirror_x: bool
    mirror_y: bool
    swap: bool


class Turns(NamedTuple):
    """Effect of the eight symmetries on the columns of one table."""

    source_8F: NDArray[np.intp]
    """which column comes to each place"""
    sign_8F: NDArray[np.float32]


def turns_of(columns: tuple[Column, ...]) -> Turns:
    """Return the turns of a table's columns, by `features.symmetry`."""
    sources, signs = zip(*(symmetry(columns, *which) for which in SYMMETRIES), strict=True)
    return Turns(np.stack(sources), np.stack(signs))


SYMMETRIES = tuple(Symmetry(*flags) for flags in itertools.product((False, True), repeat=3))
TURNS = {columns: turns_of(columns) for columns in (DISTANCE, SLOPE, GEOMETRY)}
QUADRANTS_TURNED = np.stack([quadrant_symmetry(*which) for which in SYMMETRIES])
"""(8, 4) where each symmetry takes each quadrant"""


class _Tables(NamedTuple):
    """Tables on one device. A step looks its rows up there, so that a GPU need not wait for transfers."""

    symmetry_83: Tensor
    quadrant_84: Tensor
    turns: dict[tuple[Column, ...], tuple[Tensor, Tensor]]


@functools.cache
def _tables(device: torch.device) -> _Tables:
    turns = {
        columns: (torch.from_numpy(turn.source_8F).to(device), torch.from_numpy(turn.sign_8F).to(device))
        for columns, turn in TURNS.items()
    }
    symmetry_83, quadrant_84 = torch.tensor(SYMMETRIES), torch.from_numpy(QUADRANTS_TURNED)
    return _Tables(symmetry_83.to(device), quadrant_84.to(device), turns)


def apply_symmetry(batch: Batch, which: Symmetry) -> Batch:
    """Return the same buildings in another frame; sequences still run along the long axis."""
    return turn(batch, torch.full_like(batch.quadrant_B, SYMMETRIES.index(which)))


def turn(batch: Batch, choice_B: Tensor) -> Batch:
    """Return each building in the frame `SYMMETRIES[choice_B]`; sequences still run along the long axis."""
    tables = _tables(choice_B.device)
    mirror_x_B, mirror_y_B, _ = tables.symmetry_83[choice_B].unbind(1)
    place_BL = _places(batch.mask_BL, torch.where(_runs_along_x(batch), mirror_x_B, mirror_y_B))
    turned_B4 = tables.quadrant_84[choice_B]
    turned_B = turned_B4.gather(1, batch.quadrant_B.clamp(min=0)[:, None])[:, 0]
    source_BF, sign_BF = (table_8F[choice_B] for table_8F in tables.turns[GEOMETRY])
    return Batch(
        _turn(batch.distance_BLF, tables.turns[DISTANCE], choice_B, place_BL),
        _turn(batch.slope_BLF, tables.turns[SLOPE], choice_B, place_BL),
        batch.geometry_BF.gather(1, source_BF) * sign_BF,
        batch.mask_BL,
        batch.severity_B,
        torch.where(batch.quadrant_B >= 0, turned_B, batch.quadrant_B),
        torch.zeros_like(batch.accepted_B4).scatter(1, turned_B4, batch.accepted_B4),
        batch.mechanism_B,
        batch.weight_B,
    )


def _runs_along_x(batch: Batch) -> Tensor:
    """Return (B,) whether the sequence runs along x: the longer side; on a square, the axis it is sorted by."""
    side_x_B, side_y_B = batch.geometry_BF[:, SIDE_X], batch.geometry_BF[:, SIDE_Y]
    beyond_BL = ~batch.mask_BL[:, 1:]
    along_x_B, along_y_B = ((beyond_BL | (batch.distance_BLF[..., axis].diff(dim=1) >= 0)).all(1) for axis in (X, Y))
    return (side_x_B > side_y_B) | ((side_x_B == side_y_B) & (along_x_B | ~along_y_B))


def _places(mask_BL: Tensor, reverse_B: Tensor) -> Tensor:
    """Return (B, L) the scatterer for each place: reversed where `reverse_B`; padding stays at the end."""
    place_BL = torch.arange(mask_BL.shape[1], device=mask_BL.device).expand(mask_BL.shape)
    backward_BL = mask_BL.sum(1, keepdim=True) - 1 - place_BL
    return torch.where(reverse_B[:, None] & mask_BL, backward_BL, place_BL)


def _turn(values_BLF: Tensor, turns: tuple[Tensor, Tensor], choice_B: Tensor, place_BL: Tensor) -> Tensor:
    """Move columns and scatterers to their new places, in one pass."""
    source_BF, sign_BF = (table_8F[choice_B] for table_8F in turns)
    from_BLF = place_BL[..., None] * values_BLF.shape[-1] + source_BF[:, None]
    return values_BLF.flatten(1).gather(1, from_BLF.flatten(1)).view(values_BLF.shape) * sign_BF[:, None]
