"""Share a step among processes, and turn buildings by the compass.

Each step has one list of buildings, the same on all processes. It is dealt like cards into
`accumulate * processes` shares; each share's loss is scaled by what it holds of the whole,
so that whoever computes it, and in how many turns, the step's gradient is that of the mean
over the whole list. Whatever is drawn at random for a building is drawn for the list.

Shape legend: S buildings of a step, B buildings of a share.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from plumbline.model.losses import QuadrantLoss
from plumbline.prepare.features.definition import (
    DISTANCE,
    GEOMETRY,
    SLOPE,
    Column,
    names,
    quadrant_symmetry,
    symmetry,
)
from plumbline.train.data.batches import Batch, BuildingSet, SimilarLengths

SIDE_X, SIDE_Y = names(GEOMETRY).index("side_x"), names(GEOMETRY).index("side_y")
X, Y = names(DISTANCE).index("x"), names(DISTANCE).index("y")


class Symmetry(NamedTuple):
    """Mirror along x, mirror along y, then swap the axes."""

    mirror_x: bool
    mirror_y: bool
    swap: bool


SYMMETRIES = tuple(Symmetry(*flags) for flags in itertools.product((False, True), repeat=3))
QUADRANTS_TURNED = np.stack([quadrant_symmetry(*which) for which in SYMMETRIES])
"""(8, 4) where each symmetry takes each quadrant"""


class _Tables(NamedTuple):
    """Tables on one device. A step looks its rows up there, so that a GPU need not wait for
    transfers."""

    symmetry_83: Tensor
    quadrant_84: Tensor
    turns: dict[tuple[Column, ...], tuple[Tensor, Tensor]]
    """Source of each column of a table (8, F), and its sign (8, F), by the columns."""


@functools.cache
def _tables(device: torch.device) -> _Tables:
    turns = {}
    for columns in (DISTANCE, SLOPE, GEOMETRY):
        sources, signs = zip(*(symmetry(columns, *flags) for flags in SYMMETRIES), strict=True)
        turns[columns] = (
            torch.from_numpy(np.stack(sources)).to(device),
            torch.from_numpy(np.stack(signs)).to(device),
        )
    symmetry_83, quadrant_84 = torch.tensor(SYMMETRIES), torch.from_numpy(QUADRANTS_TURNED)
    return _Tables(symmetry_83.to(device), quadrant_84.to(device), turns)


def turn(batch: Batch, choice_B: Tensor) -> Batch:
    """Return each building in the frame `SYMMETRIES[choice_B]`; sequences still run along
    the long axis."""
    tables = _tables(choice_B.device)
    mirror_x_B, mirror_y_B, _ = tables.symmetry_83[choice_B].unbind(1)
    place_BL = _order_scatterers(
        batch.mask_BL, torch.where(_runs_along_x(batch), mirror_x_B, mirror_y_B)
    )
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
    """Return (B,) whether the sequence runs along x: the longer side; on a square, the axis
    it is sorted by."""
    side_x_B, side_y_B = batch.geometry_BF[:, SIDE_X], batch.geometry_BF[:, SIDE_Y]
    beyond_BL = ~batch.mask_BL[:, 1:]
    along_x_B, along_y_B = (
        (beyond_BL | (batch.distance_BLF[..., axis].diff(dim=1) >= 0)).all(1) for axis in (X, Y)
    )
    return (side_x_B > side_y_B) | ((side_x_B == side_y_B) & (along_x_B | ~along_y_B))


def _order_scatterers(mask_BL: Tensor, reverse_B: Tensor) -> Tensor:
    """Return the number (B, L) of the scatterer at each place, reversed by `reverse_B`; padding
    stays at the end."""
    place_BL = torch.arange(mask_BL.shape[1], device=mask_BL.device).expand(mask_BL.shape)
    backward_BL = mask_BL.sum(1, keepdim=True) - 1 - place_BL
    return torch.where(reverse_B[:, None] & mask_BL, backward_BL, place_BL)


def _turn(
    values_BLF: Tensor, turns: tuple[Tensor, Tensor], choice_B: Tensor, place_BL: Tensor
) -> Tensor:
    """Move columns and scatterers to their new places, in one pass."""
    source_BF, sign_BF = (table_8F[choice_B] for table_8F in turns)
    from_BLF = place_BL[..., None] * values_BLF.shape[-1] + source_BF[:, None]
    return (
        values_BLF.flatten(1).gather(1, from_BLF.flatten(1)).view(values_BLF.shape)
        * sign_BF[:, None]
    )


class ShareScale(NamedTuple):
    """Factors of a share's mean losses: its part of the whole step, times the number of shares.

    The trainer divides by the number of shares again: processes average their gradients,
    and turns their losses. The weight of a step's buildings is taken over what as many of
    the split have on average: over their own, a step of one building would have the same
    loss whatever that weighs.
    """

    quadrant: Tensor
    """() by the weight of the buildings whose quadrant is defined"""
    severity: Tensor
    """() by the weight of all"""
    buildings: Tensor
    """() by the number of all; 0: a share that got no building, and holds one only to take part"""


class Example(NamedTuple):
    """One share, in the form that the module gets."""

    batch: Batch
    symmetry_B: Tensor
    """place in `SYMMETRIES` of the frame that each building is turned into"""
    scale: ShareScale


class Share(NamedTuple):
    """Indices of one process's buildings in one of its turns."""

    index_S: NDArray[np.intp]
    step: int
    number: int
    shares: int


class ShareSampler(Sampler[Share]):
    """Shares of one process, `accumulate` of each step, in the order of the steps."""

    def __init__(
        self, steps: SimilarLengths, accumulate: int = 1, rank: int = 0, processes: int = 1
    ) -> None:
        self.steps, self.accumulate, self.rank, self.processes = steps, accumulate, rank, processes

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; the trainer calls this at the start of each."""
        self.steps.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.steps) * self.accumulate

    def __iter__(self) -> Iterator[Share]:
        shares = self.accumulate * self.processes
        for step, index_S in enumerate(self.steps):
            for turn in range(self.accumulate):
                yield Share(index_S, step, turn * self.processes + self.rank, shares)


class Examples(Dataset[Example]):
    """Data set that turns a `Share` into an `Example`."""

    def __init__(
        self,
        buildings: BuildingSet,
        steps: SimilarLengths,
        augment: bool,
        quadrant: QuadrantLoss | None = None,
    ) -> None:
        """Wrap the buildings; with `augment`, each gets a random frame. `quadrant` gives
        the weight of each."""
        self.buildings, self.steps, self.augment = buildings, steps, augment
        self.quadrant = quadrant or QuadrantLoss()
        self.usual_count = self._usual_count()
        """what a building of the split whose quadrant is defined counts as, on average"""

    def __len__(self) -> int:
        return len(self.buildings)

    def _usual_count(self) -> float:
        quadrant_B, weight = torch.from_numpy(self.buildings.quadrant), self.buildings.weight
        weight_B = torch.ones(len(quadrant_B)) if weight is None else torch.from_numpy(weight)
        if (
            self.augment
        ):  # all frames of a building are as likely, and turn its quadrant into each of the four
            turned = [
                self.quadrant.counts(torch.where(quadrant_B >= 0, q, -1), weight_B)
                for q in range(4)
            ]
            counts_B = torch.stack(turned).double().mean(0)
        else:
            counts_B = self.quadrant.counts(quadrant_B, weight_B).double()
        defined_B = quadrant_B >= 0
        return float(counts_B[defined_B].mean()) if defined_B.any() else 1.0

    def __getitem__(self, share: Share) -> Example:
        index_S, shares = share.index_S, share.shares
        rows = np.arange(share.number, len(index_S), shares)
        empty = not len(rows)
        if empty:  # every process takes part in every step
            rows = np.zeros(1, dtype=np.intp)
        symmetry_S = np.zeros(len(index_S), dtype=np.int64)
        if self.augment:
            # From 1 on: a 0 at the end changes no seed, and the sampler's order is drawn by
            # the words before it.
            seed = (self.steps.seed or 0, self.steps.epoch, share.step + 1)
            symmetry_S = np.random.default_rng(seed).integers(len(SYMMETRIES), size=len(index_S))
        weight = self.buildings.weight
        weight_S = np.ones(len(index_S)) if weight is None else weight[index_S].astype(float)
        quadrant_S = self.buildings.quadrant[index_S]
        turned_S = np.where(quadrant_S >= 0, QUADRANTS_TURNED[symmetry_S, quadrant_S], -1)
        counts_S = self.quadrant.counts(
            torch.from_numpy(turned_S), torch.from_numpy(weight_S)
        ).numpy()
        usual = (self.usual_count * float((quadrant_S >= 0).sum()), len(index_S), len(index_S))
        parts = zip((counts_S, weight_S, np.ones(len(index_S))), usual, strict=True)
        scale = ShareScale(
            *(
                torch.tensor(0.0 if empty else _part(part, rows, total, shares))
                for part, total in parts
            )
        )
        return Example(self.buildings[index_S[rows]], torch.from_numpy(symmetry_S[rows]), scale)


def _part(value_S: NDArray[np.float64], rows: NDArray[np.intp], total: float, shares: int) -> float:
    """Return the part of `total` in `rows`, times the number of shares; 0 where the total is 0."""
    return shares * float(value_S[rows].sum()) / total if total else 0.0
