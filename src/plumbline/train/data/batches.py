"""Batch buildings of similar length, from arrays on disk; batches are cut without a Python
loop over buildings.

Shape legend: B buildings, L places, F features.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from plumbline.params import Train
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.balance import building_weights, draw_by_weight

POOL = 64
"""Number of shuffled batches that are sorted by length together: little padding, still random."""


class Batch(NamedTuple):
    """Raw inputs of the network and labels of B buildings."""

    distance_BLF: Tensor
    slope_BLF: Tensor
    geometry_BF: Tensor
    mask_BL: Tensor
    severity_B: Tensor
    """permille"""
    quadrant_B: Tensor
    """code, or -1 where undefined"""
    accepted_B4: Tensor
    """quadrants that are right answers; none where it is undefined"""
    mechanism_B: Tensor
    """code, or -1 where unknown"""
    weight_B: Tensor
    """how much each counts in the losses"""


class SimilarLengths(Sampler[NDArray[np.intp]]):
    """Index lists of buildings of similar length, in a new order each epoch, fixed by seed
    and epoch.

    Uses 4 bytes a building while it runs, beside `length`, `weight` and `first_epoch`.
    """

    def __init__(
        self,
        length: NDArray[np.int64],
        batch_size: int,
        seed: int | None,
        weight: NDArray[np.float32] | None = None,
        *,
        shares: int = 1,
        first_epoch: NDArray[np.int32] | None = None,
    ) -> None:
        """Make lists of `shares` batches each, see `distributed_sampler`.

        Args:
            length: (B,) scatterers of each building.
            batch_size: largest number of buildings of a share.
            seed: of the order; None: by length, for evaluation.
            weight: (B,) relative frequency of each building.
            shares: number of parts into which a list is divided.
            first_epoch: (B,) first epoch, counted from 0, in which each building is drawn.
        """
        self.length, self.batch_size, self.seed, self.weight = length, batch_size, seed, weight
        self.shares, self.first_epoch = shares, first_epoch
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; the trainer calls this at the start of each."""
        self.epoch = epoch

    def __len__(self) -> int:
        count = (
            len(self.length)
            if self.first_epoch is None
            else int((self.first_epoch <= self.epoch).sum())
        )
        return -(-count // (self.batch_size * self.shares))

    def __iter__(self) -> Iterator[NDArray[np.intp]]:
        generator = np.random.default_rng((self.seed or 0, self.epoch))
        order = self._order(generator)
        size = self.batch_size * self.shares
        starts = np.arange(0, len(order), size)
        for start in starts if self.seed is None else generator.permutation(starts):
            yield order[start : start + size].astype(np.intp)

    def _order(self, generator: np.random.Generator) -> NDArray[np.integer]:
        """Return the buildings of this epoch, in pools sorted by length."""
        if self.seed is None:
            return np.argsort(self.length, kind="stable")
        drawn = np.arange(len(self.length), dtype=np.int32)
        if self.first_epoch is not None:
            drawn = drawn[self.first_epoch <= self.epoch]
        order = (
            generator.permutation(drawn)
            if self.weight is None
            else drawn[draw_by_weight(self.weight[drawn], generator)]
        )
        step = POOL * self.batch_size * self.shares
        for i in range(0, len(order), step):
            pool = order[i : i + step]
            order[i : i + step] = pool[np.argsort(self.length[pool], kind="stable")]
        return order


class BuildingSet(Dataset[Batch]):
    """Prepared buildings; indexed by a list of them, it returns their batch."""

    def __init__(self, sequences: SequenceSet, losses: Train | None = None) -> None:
        """Wrap the buildings; with `losses`, pad and weight them as in training."""
        self.sequences, self.losses = sequences, losses
        self.severity, self.quadrant = (
            np.asarray(sequences.severity),
            np.asarray(sequences.quadrant),
        )
        self.accepted, self.mechanism = (
            np.asarray(sequences.accepted),
            np.asarray(sequences.mechanism),
        )
        self.length = np.asarray(sequences.length)
        self.weight: NDArray[np.float32] | None = None
        if losses is not None and losses.balance == "weights":
            self.weight = building_weights(self.severity, self.quadrant, losses)

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, index: NDArray[np.intp]) -> Batch:
        padded = self.sequences.pad(
            index, strategy="mask" if self.losses is None else self.losses.padding
        )
        distance, slope, geometry, mask = (
            torch.from_numpy(np.ascontiguousarray(padded[name]))
            for name in ("distance", "slope", "geometry", "mask")
        )
        severity, quadrant, accepted, mechanism = (
            torch.from_numpy(np.array(values[index]))
            for values in (self.severity, self.quadrant, self.accepted, self.mechanism)
        )
        weight = (
            torch.ones(len(index)) if self.weight is None else torch.from_numpy(self.weight[index])
        )
        return Batch(
            distance, slope, geometry, mask, severity, quadrant, accepted, mechanism, weight
        )


def loader(
    sequences: SequenceSet, batch_size: int, seed: int | None = None, losses: Train | None = None
) -> DataLoader[Batch]:
    """Return batches of `sequences`, shuffled with a `seed`, and prepared as for training
    with `losses`."""
    weight = (
        building_weights(np.asarray(sequences.severity), np.asarray(sequences.quadrant), losses)
        if losses is not None and losses.balance == "oversample"
        else None
    )
    sampler = SimilarLengths(np.asarray(sequences.length), batch_size, seed, weight)
    return DataLoader(BuildingSet(sequences, losses), sampler=sampler, batch_size=None)
