"""Run the network in torch and attribute its answers to their inputs; ONNX has no gradients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from plumbline.core.arrays import Float
from plumbline.core.console import log
from plumbline.export.answers import batches
from plumbline.model.diagnosis import Diagnosis
from plumbline.model.explain import explain
from plumbline.prepare.features.definition import GEOMETRY
from plumbline.prepare.features.sequences import Sequences

MAX_CELLS = 1 << 12
"""Largest number of scatterers, padding included, that are explained at a time: bounds the
memory."""


class AnswerAttribution(NamedTuple):
    """Attribution of one answer of B buildings with N scatterers; see
    `model.explain.Attribution`."""

    by_scatterer: Float
    """(N,) part of each scatterer."""
    by_geometry: Float
    """(B, len(GEOMETRY)) part of each feature of the whole building."""
    difference: Float
    """(B,) answer less that of a building with average features: the sum of the parts."""


class Attributions(NamedTuple):
    """`model.explain.Explanation` in the rows of `Sequences`."""

    attention: Float
    """(N,) share of the attention; its sum over a building is 1."""
    quadrant: AnswerAttribution
    """Attribution of the quadrant, logits."""
    severity: AnswerAttribution
    """Attribution of the severity, natural logarithms of permille."""


def attribute_answers(model: Diagnosis, sequences: Sequences) -> Attributions:
    """Attribute the answers to all buildings to their inputs; seconds for ten of them on one
    core."""
    n_scatterers, n_buildings = int(sequences.offsets[-1]), len(sequences)
    attention, n_done = np.zeros(n_scatterers), 0
    attributions = [
        AnswerAttribution(
            np.zeros(n_scatterers), np.zeros((n_buildings, len(GEOMETRY))), np.zeros(n_buildings)
        )
        for _ in range(2)
    ]
    for index in batches(sequences.length, MAX_CELLS, "fill"):
        inputs = {name: torch.from_numpy(values) for name, values in sequences.pad(index).items()}
        mask = inputs["mask"].numpy()
        # The true cells of the mask, row by row, are the scatterers of one building after another.
        scatterers = np.concatenate([np.arange(*sequences.offsets[[i, i + 1]]) for i in index])
        explanation = explain(model, **inputs)
        attention[scatterers] = explanation.attention_BL.numpy()[mask]
        for city, batch in zip(
            attributions, (explanation.quadrant, explanation.severity), strict=True
        ):
            city.by_scatterer[scatterers] = batch.scatterer_BL.numpy()[mask]
            city.by_geometry[index] = batch.geometry_BF.numpy()
            city.difference[index] = batch.difference_B.numpy()
        n_done += len(index)
        log.info("%d of %d buildings", n_done, n_buildings)
    return Attributions(attention, *attributions)
