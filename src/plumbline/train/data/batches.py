"""Batch buildings of similar length, from arrays on disk or in the device's memory.

Batches are cut without a Python loop over buildings. A small data set can stay on the device: a batch is gathered
there, and nothing is sent in a step.

Shape legend: N scatterers of all buildings, B buildings, L places, F features.
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
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.balance import building_weights, draw_by_weight

RESIDENT_SHARE = 0.25
"""Of the device's free memory, what the data may take."""
POOL = 64
"""So many batches' worth of shuffled buildings are sorted by length together: little padding, still random."""


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
    """Index lists of buildings of similar length, in a new order each epoch, fixed by seed and epoch.

    Holds 4 bytes a building while it runs, and what `length`, `weight` and `first_epoch` take.
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
            batch_size: most buildings a share.
            seed: of the order; None: by length, for evaluation.
            weight: (B,) how often each building comes.
            shares: into how many a list will be dealt.
            first_epoch: (B,) from which epoch on, counted from 0, each building is drawn.
        """
        self.length, self.batch_size, self.seed, self.weight = length, batch_size, seed, weight
        self.shares, self.first_epoch = shares, first_epoch
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; the trainer calls this at the start of each."""
        self.epoch = epoch

    def __len__(self) -> int:
        count = len(self.length) if self.first_epoch is None else int((self.first_epoch <= self.epoch).sum())
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


class Buildings(Dataset[Batch]):
    """Prepared buildings; an item is the batch of a whole list of them."""

    def __init__(self, sequences: SequenceSet, losses: Train | None = None) -> None:
        """Wrap the buildings; with `losses`, pad and weight them as in training."""
        self.sequences, self.losses = sequences, losses
        self.severity, self.quadrant = np.asarray(sequences.severity), np.asarray(sequences.quadrant)
        self.accepted, self.mechanism = np.asarray(sequences.accepted), np.asarray(sequences.mechanism)
        self.length = np.asarray(sequences.length)
        self.weight: NDArray[np.float32] | None = None
        if losses is not None and losses.balance == "weights":
            self.weight = building_weights(self.severity, self.quadrant, losses)

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, index: NDArray[np.intp]) -> Batch:
        return self.rows(index, np.arange(len(index)))

    def rows(self, index: NDArray[np.intp], own: NDArray[np.intp]) -> Batch:
        """Return the buildings of `index` at the places `own` (ascending), as they are in the batch of all."""
        index = index[own]
        padded = self.sequences.pad(index, strategy="mask" if self.losses is None else self.losses.padding)
        distance, slope, geometry, mask = (
            torch.from_numpy(np.ascontiguousarray(padded[name])) for name in ("distance", "slope", "geometry", "mask")
        )
        severity, quadrant, accepted, mechanism = (
            torch.from_numpy(np.array(values[index]))
            for values in (self.severity, self.quadrant, self.accepted, self.mechanism)
        )
        weight = torch.ones(len(index)) if self.weight is None else torch.from_numpy(self.weight[index])
        return Batch(distance, slope, geometry, mask, severity, quadrant, accepted, mechanism, weight)


def loader(
    sequences: SequenceSet, batch_size: int, seed: int | None = None, losses: Train | None = None
) -> DataLoader[Batch]:
    """Return batches of `sequences`, shuffled with a `seed`, and prepared as for training with `losses`."""
    weight = None
    if losses is not None and losses.balance == "oversample":
        weight = building_weights(np.asarray(sequences.severity), np.asarray(sequences.quadrant), losses)
    sampler = SimilarLengths(np.asarray(sequences.length), batch_size, seed, weight)
    return DataLoader(Buildings(sequences, losses), sampler=sampler, batch_size=None)


def is_resident(train: SequenceSet, losses: Train, device: torch.device) -> bool:
    """Return whether the data go to the device: if it is a GPU that has room, and padding is not made by batch."""
    if losses.padding != "mask" or device.type != "cuda":
        return False
    return data_bytes(train) < RESIDENT_SHARE * torch.cuda.mem_get_info(device)[0]


def data_bytes(train: SequenceSet) -> int:
    """Return the bytes of the arrays in float32."""
    return 4 * (int(np.sum(train.length)) * (len(DISTANCE) + len(SLOPE)) + len(train) * (len(GEOMETRY) + 6))


class Resident(Buildings):
    """Buildings in `device`'s memory; otherwise as `Buildings`."""

    def __init__(self, table: Buildings, device: torch.device) -> None:
        super().__init__(table.sequences, table.losses)
        parts = getattr(table.sequences, "parts", (table.sequences,))
        arrays = {
            name: torch.cat([torch.from_numpy(np.array(getattr(part, name))) for part in parts]).to(device)
            for name in ("distance", "slope", "geometry")
        }
        self.distance_NF, self.slope_NF, self.geometry_BF = arrays["distance"], arrays["slope"], arrays["geometry"]
        ends = np.cumsum(self.length)
        self.start_B, self.length_B, self.severity_B, self.quadrant_B, self.accepted_B4, self.mechanism_B = (
            torch.from_numpy(np.array(values)).to(device)
            for values in (ends - self.length, self.length, self.severity, self.quadrant, self.accepted, self.mechanism)
        )
        self.weight_B = torch.ones(len(ends)) if self.weight is None else torch.from_numpy(self.weight)
        self.weight_B = self.weight_B.to(device)

    def rows(self, index: NDArray[np.intp], own: NDArray[np.intp]) -> Batch:
        """Return the same as `Buildings.rows`, gathered on the device."""
        width = int(self.length[index[own]].max(initial=1))
        index_B = torch.from_numpy(index[own])
        if self.start_B.is_cuda:
            index_B = index_B.pin_memory()  # from elsewhere the GPU would be waited for
        index_B = index_B.to(self.start_B.device, non_blocking=True)
        place_L = torch.arange(width, device=self.start_B.device)
        mask_BL = place_L < self.length_B[index_B][:, None]
        source_BL = torch.where(mask_BL, self.start_B[index_B][:, None] + place_L, 0)
        return Batch(
            _gather(self.distance_NF, source_BL, mask_BL),
            _gather(self.slope_NF, source_BL, mask_BL),
            self.geometry_BF[index_B],
            mask_BL,
            self.severity_B[index_B],
            self.quadrant_B[index_B],
            self.accepted_B4[index_B],
            self.mechanism_B[index_B],
            self.weight_B[index_B],
        )


def _gather(values_NF: Tensor, source_BL: Tensor, mask_BL: Tensor) -> Tensor:
    return values_NF[source_BL].masked_fill(~mask_BL[..., None], 0)
