"""Run the network in torch and attribute its answers to their inputs; ONNX has no gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.export.answers import batches
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.explain import explain
from plumbline.prepare.features.definition import GEOMETRY
from plumbline.prepare.features.sequences import Sequences

CELLS = 1 << 12
"""Scatterers, padding included, explained at a time: bounds the memory whatever the lengths."""
Float = NDArray[np.floating[Any]]


class Moved(NamedTuple):
    """Attribution of one answer of B buildings with N scatterers; see `model.explain.Attribution`."""

    by_scatterer: Float
    """(N,)"""
    by_geometry: Float
    """(B, len(GEOMETRY))"""
    difference: Float
    """(B,)"""


class Reasons(NamedTuple):
    """`model.explain.Explanation` in the rows of `Sequences`."""

    attention: Float
    """(N,) adds up to 1 in each building."""
    quadrant: Moved
    """Logits."""
    severity: Moved
    """Natural logarithms of permille."""


def reasons(model: Diagnosis, sequences: Sequences) -> Reasons:
    """Attribute the answers to all buildings to their inputs; seconds for ten of them on one core."""
    rows, buildings = int(sequences.offsets[-1]), len(sequences)
    attention = np.zeros(rows)
    done = 0
    moved = [Moved(np.zeros(rows), np.zeros((buildings, len(GEOMETRY))), np.zeros(buildings)) for _ in range(2)]
    for index in batches(sequences.length, CELLS, "fill"):
        inputs = {name: torch.from_numpy(values) for name, values in sequences.pad(index).items()}
        mask = inputs["mask"].numpy()
        # Row by row, the mask holds the scatterers of one building after another.
        own = np.concatenate([np.arange(*sequences.offsets[[i, i + 1]]) for i in index])
        found = explain(model, **inputs)
        attention[own] = found.attention_BL.numpy()[mask]
        for whole, part in zip(moved, (found.quadrant, found.severity), strict=True):
            whole.by_scatterer[own] = part.scatterer_BL.numpy()[mask]
            whole.by_geometry[index] = part.geometry_BF.numpy()
            whole.difference[index] = part.difference_B.numpy()
        done += len(index)
        log.info("%d of %d buildings", done, buildings)
    return Reasons(attention, *moved)
