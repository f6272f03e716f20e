"""Find the largest batch that fits into memory, from what autograd keeps for the backward pass."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from plumbline.core.console import log, warn
from plumbline.model.diagnosis import Diagnosis
from plumbline.params import Optimise, Train
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.data.batches import Batch, BuildingSet
from plumbline.train.data.sampler import ShareScale
from plumbline.train.distributed.strategies import gpus
from plumbline.train.fit.module import objective
from plumbline.train.monitor.record import free_bytes

SMALLEST, LARGEST = 16, 1024
"""Bounds of an automatic batch size; in larger ones, fewer steps cost more than they save."""
SHARE = 0.5
"""Share of the free memory that a batch may use."""
OVERHEAD = 2.0
"""Factor of the saved bytes, for their gradients and for the memory of single operations."""
STEPS = 8
"""Smallest number of steps of an epoch, where the data allow it."""
SAMPLE = 4
"""Number of buildings whose saved bytes are compared with those of twice as many."""


def batch_size(
    model: Diagnosis, train: SequenceSet, optimise: Optimise, losses: Train, section: str = "train"
) -> int:
    """Return `batch_size` of the section; for `auto`, the largest power of two that fits
    into memory.

    If even the smallest does not fit, a warning is logged.
    """
    if optimise.batch_size:
        return optimise.batch_size
    bytes_each = building_bytes(model, train, losses)
    free = free_bytes(gpu=gpus(losses) > 0) / (1 if gpus(losses) else losses.devices)
    shares = losses.devices * losses.nodes * optimise.accumulate
    size = fitting(SHARE * free / bytes_each, len(train) / (STEPS * shares))
    if SHARE * free < SMALLEST * bytes_each:
        warn(
            "batch size: half of the free memory, %.0f MB, holds %d of the longest buildings; "
            "auto takes at least %d. "
            "Set %s.batch_size, or free memory",
            SHARE * free / 1e6,
            SHARE * free // bytes_each,
            SMALLEST,
            section,
            key="batch_size.little_memory",
        )
    log.info(
        "batch size: %d (%.0f kB a building of the longest, %.1f GB free)",
        size,
        bytes_each / 1e3,
        free / 1e9,
    )
    return size


def fitting(by_memory: float, by_data: float) -> int:
    """Return the largest power of two up to both numbers, from `SMALLEST` to `LARGEST`."""
    bound = max(SMALLEST, min(by_memory, by_data, LARGEST))
    return int(2 ** np.floor(np.log2(bound)))


def building_bytes(model: Diagnosis, train: SequenceSet, losses: Train) -> float:
    """Return the bytes that a training step needs for each building of a batch of the longest ones.

    Counted by autograd: what it keeps for twice the buildings, less what it keeps for them once.
    """
    longest = np.argsort(np.asarray(train.length))[-1:]
    was_training = model.training
    # a loaded model comes in evaluation mode, which neither drops nor recomputes anything
    model.train()
    batches = (BuildingSet(train)[np.repeat(longest, count)] for count in (SAMPLE, 2 * SAMPLE))
    saved = [_saved_bytes(model, batch, losses) for batch in batches]
    model.train(was_training)
    return OVERHEAD * max(1.0, (saved[1] - saved[0]) / SAMPLE)


def _saved_bytes(model: Diagnosis, batch: Batch, losses: Train) -> int:
    """Return the bytes of the tensors that the backward pass needs, each storage counted once."""
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    unit = torch.ones(())
    # No device but the CPU draws: otherwise this process would take memory of every GPU.
    with (
        torch.random.fork_rng(devices=[]),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
    ):
        answer = model.raw(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
        loss = objective(model, answer, batch, losses, ShareScale(unit, unit, unit))
    del loss
    return sum(storages.values())
