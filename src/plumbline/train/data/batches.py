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
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.class_balance import building_weights, draw
from plumbline.train.data.perturb import draw_numbers, perturb

POOL = 64
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

    Holds 4 bytes a building while it runs, and what `length`, `weight` and `first_epoch` take.
    """

    def __init__(
        self,
        length: NDArray[np.int64],
        batch_size: int,
        seed: int | None,
        weight: NDArray[np.float32] | None = None,
        *,
        tokens: int = 0,
        shares: int = 1,
        first_epoch: NDArray[np.int32] | None = None,
    ) -> None:
        """Lists of `shares` batches each, see `deal`.

        Args:
            length: (B,) scatterers of each building.
            batch_size: most buildings a share.
            seed: of the order; None: by length, for evaluation.
            weight: (B,) how often each building comes.
            tokens: most places a share, padding included; 0: any.
            shares: into how many a list will be dealt.
            first_epoch: (B,) from which epoch on, counted from 0, each building is drawn.
        """
        self.length, self.batch_size, self.seed, self.weight = length, batch_size, seed, weight
        self.tokens, self.shares, self.first_epoch = tokens, shares, first_epoch
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the trainer at the start of each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        if self.tokens:
            return len(self._cuts(self._order(np.random.default_rng((self.seed or 0, self.epoch)))))
        count = len(self.length) if self.first_epoch is None else int((self.first_epoch <= self.epoch).sum())
        return -(-count // (self.batch_size * self.shares))

    def __iter__(self) -> Iterator[NDArray[np.intp]]:
        generator = np.random.default_rng((self.seed or 0, self.epoch))
        order = self._order(generator)
        cuts = self._cuts(order)
        turns = np.arange(len(cuts)) if self.seed is None else generator.permutation(len(cuts))
        for i in turns:
            yield order[slice(*cuts[i])].astype(np.intp)

    def _order(self, generator: np.random.Generator) -> NDArray[np.integer]:
        """Buildings of this epoch, in pools sorted by length."""
        if self.seed is None:
            return np.argsort(self.length, kind="stable")
        drawn = np.arange(len(self.length), dtype=np.int32)
        if self.first_epoch is not None:
            drawn = drawn[self.first_epoch <= self.epoch]
        order = generator.permutation(drawn) if self.weight is None else drawn[draw(self.weight[drawn], generator)]
        step = POOL * self.batch_size * self.shares
        for i in range(0, len(order), step):
            pool = order[i : i + step]
            order[i : i + step] = pool[np.argsort(self.length[pool], kind="stable")]
        return order

    def _cuts(self, order: NDArray[np.integer]) -> list[tuple[int, int]]:
        """Where each list begins and ends; of each pool the longest buildings first, which say how many fit."""
        most = self.batch_size * self.shares
        if not self.tokens:
            return [(i, min(i + most, len(order))) for i in range(0, len(order), most)]
        cuts = []
        length = self.length[order]
        pool = len(order) if self.seed is None else POOL * most
        for begin in range(0, len(order), pool):
            end = min(begin + pool, len(order))
            while end > begin:
                fit = max(1, self.tokens // max(1, int(length[end - 1]))) * self.shares
                start = max(begin, end - min(most, fit))
                cuts.append((start, end))
                end = start
        return cuts


class Buildings(Dataset[Batch]):
    """Prepared buildings; an item is the batch of a whole list of them."""

    def __init__(
        self, sequences: SequenceSet, losses: Train | None = None, sampler: SimilarLengths | None = None
    ) -> None:
        """With `losses`, as training sees them: perturbed, padded and weighted as the section says.

        `sampler` tells the seed and the epoch, so that perturbations differ from epoch to epoch and can be repeated.
        """
        self.sequences, self.losses, self.sampler = sequences, losses, sampler
        self.severity, self.quadrant = np.asarray(sequences.severity), np.asarray(sequences.quadrant)
        self.length = np.asarray(sequences.length)
        self.least = int(np.min(self.length, initial=1 << 31))
        self.weight: NDArray[np.float32] | None = None
        if losses is not None and losses.balance == "weights":
            self.weight = building_weights(self.severity, self.quadrant, losses)

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, index: NDArray[np.intp]) -> Batch:
        return self.rows(index, np.arange(len(index)))

    def rows(self, index: NDArray[np.intp], own: NDArray[np.intp]) -> Batch:
        """Some of the buildings `index`: those at the places `own`, ascending, as they are in the batch of all."""
        padded = self._padded(index, own)
        index = index[own]
        distance, slope, geometry, mask = (
            torch.from_numpy(np.ascontiguousarray(padded[name])) for name in ("distance", "slope", "geometry", "mask")
        )
        severity, quadrant = (torch.from_numpy(np.array(labels[index])) for labels in (self.severity, self.quadrant))
        weight = torch.ones(len(index)) if self.weight is None else torch.from_numpy(self.weight[index])
        return Batch(distance, slope, geometry, mask, severity, quadrant, weight)

    def _padded(self, index: NDArray[np.intp], own: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        if self.losses is None:
            return dict(self.sequences.pad(index[own]))
        if not self.losses.perturbs:
            return dict(self.sequences.pad(index[own], strategy=self.losses.padding))
        seed = (0, 0) if self.sampler is None else (self.sampler.seed or 0, self.sampler.epoch)
        generator = np.random.default_rng((*seed, zlib.crc32(index.tobytes())))
        length = self.length[index]
        # Drawn for all, so that a building is perturbed alike however many processes share the work.
        draws = draw_numbers(length, generator).take(own, length)
        part = perturb(self.sequences.take(index[own]), self.losses, self.least, draws)
        return dict(part.pad(np.arange(len(own)), strategy=self.losses.padding))


def loader(
    sequences: SequenceSet, batch_size: int, seed: int | None = None, losses: Train | None = None
) -> DataLoader[Batch]:
    """Batches of `sequences`; shuffled where there is a seed, and as training sees them where there are `losses`."""
    weight = None
    if losses is not None and losses.balance == "oversample":
        weight = building_weights(np.asarray(sequences.severity), np.asarray(sequences.quadrant), losses)
    sampler = SimilarLengths(np.asarray(sequences.length), batch_size, seed, weight)
    return DataLoader(Buildings(sequences, losses, sampler), sampler=sampler, batch_size=None)
