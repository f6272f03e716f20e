"""Batches of similar length, cut from the prepared arrays without a Python loop over buildings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from plumbline.prepare.sequences import Sequences

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


class Buildings(Dataset[Batch]):
    """Prepared buildings; an item is the batch of a whole list of them."""

    def __init__(self, sequences: Sequences) -> None:
        self.sequences = sequences

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, index: NDArray[np.intp]) -> Batch:
        padded = self.sequences.pad(index)
        distance, slope, geometry, mask = (
            torch.from_numpy(np.ascontiguousarray(padded[name])) for name in ("distance", "slope", "geometry", "mask")
        )
        severity = torch.from_numpy(np.array(self.sequences.severity[index]))
        return Batch(
            distance, slope, geometry, mask, severity, torch.from_numpy(np.array(self.sequences.quadrant[index]))
        )


class SimilarLengths(Sampler[NDArray[np.intp]]):
    """Index lists of buildings of similar length; another order each epoch, the same for a seed and epoch."""

    def __init__(self, length: NDArray[np.int64], batch_size: int, seed: int | None) -> None:
        """Without a seed the order is fixed: for evaluation."""
        self.length, self.batch_size, self.seed = length, batch_size, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the trainer at the start of each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.length) // self.batch_size)

    def __iter__(self) -> Iterator[NDArray[np.intp]]:
        if self.seed is None:
            order = np.argsort(self.length, kind="stable")
            yield from (order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size))
            return
        generator = np.random.default_rng((self.seed, self.epoch))
        order = generator.permutation(len(self.length))
        step = POOL * self.batch_size
        pools = [order[i : i + step] for i in range(0, len(order), step)]
        order = np.concatenate([pool[np.argsort(self.length[pool], kind="stable")] for pool in pools])
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        for i in generator.permutation(len(batches)):
            yield batches[i]


def loader(sequences: Sequences, batch_size: int, seed: int | None = None) -> DataLoader[Batch]:
    """Batches of `sequences`; shuffled where there is a seed."""
    return DataLoader(
        Buildings(sequences),
        sampler=SimilarLengths(np.asarray(sequences.length), batch_size, seed),
        batch_size=None,
    )
