"""Batches of similar length, cut from the prepared arrays without a Python loop over buildings."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from plumbline.params import Train
from plumbline.prepare.shards import SequenceSet
from plumbline.train.perturb import perturb, perturbs
from plumbline.train.sample import building_weights, draw

POOL = 16
"""So many batches' worth of shuffled buildings are sorted by length together: little padding, still random."""


class Batch(NamedTuple):
    """The network's raw inputs and the labels of B buildings."""

    distance_BLF: Tensor
    slope_BLF: Tensor
    geometry_BF: Tensor
    mask_BL: Tensor
    severity_B: Tensor
    """permille"""
    quadrant_B: Tensor
    """code, or -1 where undefined"""
    weight_B: Tensor
    """how much each counts in the losses"""


class SimilarLengths(Sampler[NDArray[np.intp]]):
    """Index lists of buildings of similar length; another order each epoch, the same for a seed and epoch.

    Holds 4 bytes a building while it runs, and what `length` and `weight` take.
    """

    def __init__(
        self, length: NDArray[np.int64], batch_size: int, seed: int | None, weight: NDArray[np.float32] | None = None
    ) -> None:
        """Without a seed the order is fixed: for evaluation. With `weight` (B,), buildings come that often."""
        self.length, self.batch_size, self.seed, self.weight = length, batch_size, seed, weight
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the trainer at the start of each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.length) // self.batch_size)

    def __iter__(self) -> Iterator[NDArray[np.intp]]:
        if self.seed is None:
            fixed = np.argsort(self.length, kind="stable")
            yield from (fixed[i : i + self.batch_size] for i in range(0, len(fixed), self.batch_size))
            return
        generator = np.random.default_rng((self.seed, self.epoch))
        if self.weight is None:
            order = generator.permutation(np.arange(len(self.length), dtype=np.int32))
        else:
            order = draw(self.weight, generator)
        step = POOL * self.batch_size
        for i in range(0, len(order), step):
            pool = order[i : i + step]
            order[i : i + step] = pool[np.argsort(self.length[pool], kind="stable")]
        for i in generator.permutation(len(self)):
            yield order[i * self.batch_size : (i + 1) * self.batch_size].astype(np.intp)


class Buildings(Dataset[Batch]):
    """Prepared buildings; an item is the batch of a whole list of them."""

    def __init__(
        self, sequences: SequenceSet, losses: Train | None = None, sampler: SimilarLengths | None = None
    ) -> None:
        """With `losses`, as training sees them: perturbed, padded and weighted as the section says.

        `sampler` tells the seed and the epoch, so that perturbations differ from epoch to epoch and can be repeated.
        """
        self.sequences, self.losses, self.sampler = sequences, losses, sampler
        self.severity, self.quadrant = sequences.severity, sequences.quadrant
        self.least = int(np.min(sequences.length, initial=1 << 31))
        self.weight: NDArray[np.float32] | None = None
        if losses is not None and losses.balance == "weights":
            self.weight = building_weights(np.asarray(self.severity), np.asarray(self.quadrant), losses)

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, index: NDArray[np.intp]) -> Batch:
        padded = self._padded(index)
        distance, slope, geometry, mask = (
            torch.from_numpy(np.ascontiguousarray(padded[name])) for name in ("distance", "slope", "geometry", "mask")
        )
        severity, quadrant = (torch.from_numpy(np.array(labels[index])) for labels in (self.severity, self.quadrant))
        weight = torch.ones(len(index)) if self.weight is None else torch.from_numpy(self.weight[index])
        return Batch(distance, slope, geometry, mask, severity, quadrant, weight)

    def _padded(self, index: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        if self.losses is None:
            return dict(self.sequences.pad(index))
        if not perturbs(self.losses):
            return dict(self.sequences.pad(index, strategy=self.losses.padding))
        seed = (0, 0) if self.sampler is None else (self.sampler.seed or 0, self.sampler.epoch)
        generator = np.random.default_rng((*seed, zlib.crc32(index.tobytes())))
        part = perturb(self.sequences.take(index), self.losses, self.least, generator)
        return dict(part.pad(np.arange(len(index)), strategy=self.losses.padding))


def loader(
    sequences: SequenceSet, batch_size: int, seed: int | None = None, losses: Train | None = None
) -> DataLoader[Batch]:
    """Batches of `sequences`; shuffled where there is a seed, and as training sees them where there are `losses`."""
    weight = None
    if losses is not None and losses.balance == "oversample":
        weight = building_weights(np.asarray(sequences.severity), np.asarray(sequences.quadrant), losses)
    sampler = SimilarLengths(np.asarray(sequences.length), batch_size, seed, weight)
    return DataLoader(Buildings(sequences, losses, sampler), sampler=sampler, batch_size=None)
