"""A trained network as something that answers for sequences, before it is exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from plumbline.export.answers import Answers
from plumbline.model.diagnosis import load_diagnosis
from plumbline.prepare.features.shards import SequenceSet

BUILDINGS = 256
"""Answered for at a time."""


class TrainedModel:
    """The output folder of the stage `train` (or `compress`), under torch."""

    def __init__(self, folder: Path) -> None:
        self._model = load_diagnosis(folder)

    def answer(self, sequences: SequenceSet) -> Answers:
        """Answer for all buildings, in their order; as `OnnxModel.answer`."""
        parts = []
        for start in range(0, len(sequences), BUILDINGS):
            inputs = sequences.pad(np.arange(start, min(start + BUILDINGS, len(sequences))))
            tensors = [
                torch.from_numpy(np.ascontiguousarray(inputs[k])) for k in ("distance", "slope", "geometry", "mask")
            ]
            with torch.inference_mode():
                parts.append([value.numpy() for value in self._model(*tensors)])
        return Answers(*(np.concatenate(part) for part in zip(*parts, strict=True)))
