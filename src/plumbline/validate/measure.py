"""Size, speed and parity of an exported artifact."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from plumbline.export.runtime import Answers, OnnxModel
from plumbline.model.diagnosis import Diagnosis
from plumbline.prepare.shards import SequenceSet
from plumbline.validate.metrics import Figures

REPEATS = 30


def size_figures(path: Path) -> Figures:
    """Bytes of the file, and of its weights alone (the initialisers)."""
    model = onnx.load(path)
    weights = sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in model.graph.initializer)
    return {"size_bytes": float(path.stat().st_size), "weight_bytes": float(weights)}


def speed_figures(model: OnnxModel, sequences: SequenceSet, batch: int) -> Figures:
    """Median time of one building, ms, and buildings a second at `batch`, on real test buildings after warming up."""
    middle = np.argsort(np.asarray(sequences.length), kind="stable")
    single = sequences.pad(middle[len(middle) // 2 : len(middle) // 2 + 1])
    many = sequences.pad(np.random.default_rng(0).permutation(len(sequences))[:batch])
    return {
        "latency_ms": 1000 * _median_time(model, single),
        "buildings_per_second": len(many["geometry"]) / _median_time(model, many),
    }


def parity_figures(model: Diagnosis, sequences: SequenceSet, answers: Answers) -> Figures:
    """Largest difference between torch and the exported artifact, in probability and permille, over all buildings."""
    probability, permille = [], []
    for index in np.array_split(np.arange(len(sequences)), max(1, len(sequences) // 256)):
        with torch.inference_mode():
            own = model(*(torch.from_numpy(np.ascontiguousarray(part)) for part in _ordered(sequences, index)))
        probability.append(np.abs(own.quadrant_probability.numpy() - answers.quadrant_probability[index]).max())
        permille.append(np.abs(own.severity_permille.numpy() - answers.severity_permille[index]).max())
    # numpy's maximum of anything with a NaN is NaN; Python's depends on the order.
    return {"parity_probability": float(np.max(probability)), "parity_severity_permille": float(np.max(permille))}


def _ordered(sequences: SequenceSet, index: NDArray[np.intp]) -> list[NDArray[Any]]:
    inputs = sequences.pad(index)
    return [inputs[name] for name in ("distance", "slope", "geometry", "mask")]


def _median_time(model: OnnxModel, inputs: dict[str, NDArray[Any]]) -> float:
    for _ in range(3):
        model.run(inputs)
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        model.run(inputs)
        times.append(time.perf_counter() - start)
    return float(np.median(times))
