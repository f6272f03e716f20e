"""Answers of a released model through the runtime that serves it; torch is not needed, nor loaded."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from plumbline.errors import InputError
from plumbline.prepare.shards import SequenceSet

CELLS = 1 << 15
"""Scatterers, padding included, answered for at a time: bounds the memory whatever the lengths."""


class Answers(NamedTuple):
    """Answers for B buildings, in their order; see `model.diagnosis.Answer`."""

    quadrant_probability: NDArray[np.float32]
    severity_permille: NDArray[np.float32]
    severity_low: NDArray[np.float32]
    severity_high: NDArray[np.float32]
    novelty: NDArray[np.float32]


class OnnxModel:
    """An ONNX file under ONNX Runtime, on the CPU."""

    def __init__(self, path: Path) -> None:
        """Open a model.

        Raises:
            InputError: ONNX Runtime cannot read the file, or it is not a model of this project.
        """
        _refuse_both_runtimes()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        try:
            # The one provider is named, so that there is no silent change of device.
            self._session: Any = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime raises classes of its own for each sort of damage
            raise InputError(f"{path}: ONNX Runtime cannot open it ({error}).") from None
        found = tuple(output.name for output in self._session.get_outputs())
        if found != Answers._fields:
            raise InputError(f"{path}: outputs {', '.join(found)} found, {', '.join(Answers._fields)} needed.")

    def run(self, inputs: dict[str, NDArray[Any]]) -> Answers:
        """Answer one padded batch, as `Sequences.pad` makes it."""
        return Answers(*self._session.run(None, inputs))

    def answer(self, sequences: SequenceSet) -> Answers:
        """Answer for all buildings, those of similar length together."""
        order = np.argsort(np.asarray(sequences.length), kind="stable")
        parts, at = [], []
        start = 0
        while start < len(order):
            # The longest of a batch comes last; shrink the batch until its rectangle fits.
            stop = min(len(order), start + max(1, CELLS // max(1, int(sequences.length[order[start]]))))
            longest = max(1, int(sequences.length[order[stop - 1]]))
            stop = min(stop, start + max(1, CELLS // longest))
            parts.append(self.run(sequences.pad(order[start:stop])))
            at.append(order[start:stop])
            start = stop
        if not parts:
            shapes = ((0, 4), (0,), (0,), (0,), (0,))
            return Answers(*(np.zeros(shape, np.float32) for shape in shapes))
        back = np.argsort(np.concatenate(at))
        return Answers(*(np.concatenate(part)[back] for part in zip(*parts, strict=True)))


def _refuse_both_runtimes() -> None:
    """pip installs the CPU and the GPU runtime into one folder without a word, and either may then be imported.

    Raises:
        InputError: both are installed.
    """
    if all(_installed(name) for name in ("onnxruntime", "onnxruntime-gpu")):
        raise InputError(
            "onnxruntime and onnxruntime-gpu are both installed. Uninstall both, then install one of them."
        )


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
