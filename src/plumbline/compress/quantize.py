"""int8 weights and activations for the layers that hold nearly all weights, through ONNX Runtime's quantiser."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from plumbline.errors import PlumblineError
from plumbline.files import atomic_file
from plumbline.prepare.shards import SequenceSet

OPERATORS = ["MatMul", "Gemm", "Conv"]
"""Where the weights are. Quantising every operator instead costs half of the accuracy (docs/decisions)."""
KEPT_FLOAT = ("whitening", "quadrant_head", "severity_head")
"""Layers that stay in float, by a part of their weights' names: few weights, and what they say is the answer."""


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    """Batches of real training buildings, each different from the others."""

    def __init__(self, data: SequenceSet, batches: int, batch_size: int, seed: int) -> None:
        index = np.random.default_rng(seed).permutation(len(data))[: batches * batch_size]
        self._batches: Iterator[NDArray[np.intp]] = iter(np.array_split(index, min(batches, len(index))))
        self._data = data
        self._sums: set[float] = set()

    def get_next(self) -> dict[str, NDArray[np.generic]] | None:
        """The next batch, or None after the last.

        Raises:
            PlumblineError: a batch came twice; ranges would be measured on one batch only.
        """
        index = next(self._batches, None)
        if index is None:
            return None
        inputs = self._data.pad(np.sort(index))
        fingerprint = float(inputs["slope"].astype(float).sum())
        if fingerprint in self._sums:
            raise PlumblineError("int8 calibration: two batches are the same.")
        self._sums.add(fingerprint)
        return inputs


def quantize(source: Path, target: Path, calibration: Calibration) -> None:
    """Write an int8 model (static, symmetric, per channel, quantise-dequantise form) beside the float one.

    Weights keep 7 of 8 bits: without VNNI instructions the sums of 8-bit products saturate.

    Args:
        source: float32 ONNX file. target: file to write. calibration: see `Calibration`.
    """
    with tempfile.TemporaryDirectory() as scratch, atomic_file(target) as temporary:
        plain, ready = Path(scratch) / "plain.onnx", Path(scratch) / "ready.onnx"
        model = onnx.load(source)
        # The exporter's notes on intermediate shapes contradict the quantiser's; it infers its own.
        del model.graph.value_info[:]
        onnx.save(model, plain)
        quant_pre_process(str(plain), str(ready), skip_symbolic_shape=True)
        quantize_static(
            str(ready),
            str(temporary),
            calibration,
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=OPERATORS,
            nodes_to_exclude=_without_weights(onnx.load(ready)),
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            extra_options={"ActivationSymmetric": True, "WeightSymmetric": True},
        )


def _without_weights(model: onnx.ModelProto) -> list[str]:
    """Products of two activations (attention scores), and all that reads what the layers of `KEPT_FLOAT` read.

    A rounded input is a clipped one, for every reader: what lies far outside of the calibration data would seem to
    lie at its edge. A building unlike all others would be judged; a step before the severity's exponential is a step of
    a tenth of the severity after it.
    """
    fixed = {tensor.name for tensor in model.graph.initializer}
    named = [node for node in model.graph.node if node.op_type in OPERATORS]
    read = {node.input[0] for node in named if any(part in name for name in node.input for part in KEPT_FLOAT)}
    return [node.name for node in named if not fixed.intersection(node.input[1:2]) or node.input[0] in read]
