"""Write reference vectors: inputs and answers of a few buildings, by which an application
checks its own runtime."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from plumbline.core.files import write_bytes
from plumbline.export.interface import RAW, interface, predictions_interface
from plumbline.export.runtime import OnnxModel
from plumbline.prepare.features.shards import SequenceSet

Arrays = dict[str, NDArray[Any]]
N_VECTORS = 20
"""Number of buildings in the reference vectors."""
N_CANDIDATES = 2000
"""Number of buildings among which they are chosen."""
LONGEST = 64
"""Largest number of scatterers of a building that is chosen, if there are enough of them:
the file stays small."""
DAMAGE_RATES = (0.02, 0.3)
"""Shares of damaged buildings that the predictions stand for, in turn."""


def run_predictions(
    path: Path, inputs: Mapping[str, NDArray[Any]], raw: Mapping[str, NDArray[Any]]
) -> Arrays:
    """Return the outputs of `predictions.onnx` by name.

    Args:
        path: the file.
        inputs: of the network, with `damage_rate` and `hides_damage` (B,).
        raw: outputs of the network.
    """
    session: Any = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {**inputs, **{RAW + name: value for name, value in raw.items()}}
    outputs = session.run(None, {value.name: feeds[value.name] for value in session.get_inputs()})
    return dict(zip((value.name for value in session.get_outputs()), outputs, strict=True))


def write_vectors(sequences: SequenceSet, network: Path, predictions: Path, out: Path) -> None:
    """Write inputs, raw answers and predictions of `N_VECTORS` buildings as JSON.

    Every reason and every category that the candidates have is among them.

    Args:
        sequences: buildings of the test data.
        network: its ONNX file, in float32. predictions: the second graph.
        out: file to write.
    """
    model = OnnxModel(network, threads=1)
    lengths = np.asarray(sequences.length)
    short = np.flatnonzero(lengths <= max(LONGEST, int(np.sort(lengths)[:N_VECTORS][-1])))
    index = short[
        np.unique(np.linspace(0, len(short) - 1, min(N_CANDIDATES, len(short))).astype(int))
    ]
    rates = np.resize(np.array(DAMAGE_RATES, np.float32), len(index))
    _, _, answers = _answer(model, predictions, sequences.pad(index), rates)
    rows = _choose(answers["reason"], answers["burland_category"])
    inputs, raw, answers = _answer(model, predictions, sequences.pad(index[rows]), rates[rows])
    inputs["hides_damage"][np.flatnonzero(answers["burland_category"] == 0)[:1]] = (
        True  # shows what a lean does
    )
    answers = run_predictions(predictions, inputs, raw)
    types = {tensor["name"]: tensor["type"] for tensor in _declared()}
    content = {
        part: {name: _tensor(value, types[name]) for name, value in tensors.items()}
        for part, tensors in (("inputs", inputs), ("raw", raw), ("predictions", answers))
    }
    write_bytes(out, json.dumps(content, separators=(",", ":")).encode() + b"\n")


def read_vectors(path: Path) -> dict[str, Arrays]:
    """Read what `write_vectors` wrote: part -> name of the tensor -> values; null is NaN."""
    content = json.loads(path.read_bytes())
    return {
        part: {
            name: np.array([np.nan if value is None else value for value in tensor["data"]])
            .astype(tensor["type"])
            .reshape(tensor["shape"])
            for name, tensor in tensors.items()
        }
        for part, tensors in content.items()
    }


def _declared() -> list[dict[str, Any]]:
    network, second = interface(), predictions_interface()
    return [*network["inputs"], *second["inputs"], *network["outputs"], *second["outputs"]]


def _answer(
    model: OnnxModel, predictions: Path, inputs: Arrays, rates: NDArray[np.float32]
) -> tuple[Arrays, Arrays, Arrays]:
    raw: Arrays = model.run(inputs)._asdict()
    inputs = {**inputs, "damage_rate": rates, "hides_damage": np.zeros(len(rates), bool)}
    return inputs, raw, run_predictions(predictions, inputs, raw)


def _choose(reason_B: NDArray[np.int32], category_B: NDArray[np.int32]) -> NDArray[np.intp]:
    """Return the rows of `N_VECTORS` buildings, in turn of each kind: a reason with a category."""
    _, kind_B = np.unique(np.stack([reason_B, category_B], 1), axis=0, return_inverse=True)
    rows_of_kinds = (np.flatnonzero(kind_B == kind) for kind in range(kind_B.max() + 1))
    in_turn = [row for row in chain(*zip_longest(*rows_of_kinds)) if row is not None]
    return np.sort(np.array(in_turn[:N_VECTORS]))


def _tensor(value: NDArray[Any], kind: str) -> dict[str, Any]:
    """Return a tensor for JSON: numbers in as few digits as give the same float32, and null
    for NaN."""
    flat = value.ravel()
    if kind == "float32":
        data: list[Any] = [
            float(str(number)) if np.isfinite(number) else None
            for number in flat.astype(np.float32)
        ]
    else:
        data = flat.tolist()
    return {"type": kind, "shape": list(value.shape), "data": data}
