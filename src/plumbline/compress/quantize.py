"""Quantise weights and activations to int8 by ONNX Runtime's quantiser, in the layers with nearly all weights."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from plumbline.compress.pack import pack
from plumbline.core.errors import InputError
from plumbline.prepare.features.shards import SequenceSet

OPERATORS = ["MatMul", "Gemm", "Conv"]
"""Where the weights are. Quantising every operator instead costs half of the accuracy (docs/decisions)."""
KEPT_FLOAT = ("whitening", "quadrant_head", "severity_head", "accepted_head", "level_head", "mechanism_head")
"""Layers whose activations stay in float, by a part of their weights' names: what they say is the answer."""


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    """Batches of real training buildings, all different."""

    def __init__(self, data: SequenceSet, batches: int, batch_size: int, seed: int) -> None:
        """Draw the batches.

        Raises:
            InputError: two hold the same values, so that ranges tell of fewer buildings than they seem to.
        """
        index = np.random.default_rng(seed).permutation(len(data))[: batches * batch_size]
        drawn: list[NDArray[np.intp]] = [np.sort(part) for part in np.array_split(index, min(batches, len(index)))]
        self._data = data
        self._batches = iter(drawn)
        if len({float(data.pad(part)["slope"].astype(float).sum()) for part in drawn}) < len(drawn):
            raise InputError(
                "int8 calibration: two batches of the training split hold the same values. Is a city there twice? "
                "Leave one out, or make export.calibration_batches smaller."
            )

    def get_next(self) -> dict[str, NDArray[np.generic]] | None:
        """Return the next batch, or None after the last."""
        index = next(self._batches, None)
        return None if index is None else self._data.pad(index)


class Quantiser:
    """A float32 model, quantised in several ways from one calibration of its activations."""

    def __init__(self, source: Path, scratch: Path, calibration: Calibration) -> None:
        """Prepare `source` in the folder `scratch`; see `Calibration`."""
        self._ready, self._ranges, self._made = scratch / "ready.onnx", scratch / "ranges.json", scratch / "int8.onnx"
        self._calibration = calibration
        plain = scratch / "plain.onnx"
        model = onnx.load(source)
        # The exporter's notes on intermediate shapes contradict the quantiser's; it infers its own.
        del model.graph.value_info[:]
        onnx.save(model, plain)
        quant_pre_process(str(plain), str(self._ready), skip_symbolic_shape=True)
        self._model = onnx.load(self._ready)

    def layers(self) -> list[str]:
        """List the layers that can have int8 activations, in the graph's order, attention included."""
        fixed = set(_without_weights(self._model))
        names = layer_names(self._model)
        return [names[node.name] for node in _candidates(self._model) if node.name not in fixed]

    def static(self, in_float: Collection[str] = ()) -> onnx.ModelProto:
        """Quantise weights and activations to int8, symmetric, weights per channel, in the quantise-dequantise form.

        Weights keep 7 of 8 bits: without VNNI instructions the sums of 8-bit products saturate.

        Args:
            in_float: layers whose activations stay in float.
        """
        with _silent():
            quantize_static(
                str(self._ready),
                str(self._made),
                None if self._ranges.exists() else self._calibration,
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=OPERATORS,
                nodes_to_exclude=self._excluded(in_float),
                per_channel=True,
                reduce_range=True,
                activation_type=QuantType.QInt8,
                weight_type=QuantType.QInt8,
                # A bias in 32 bits with its scale is 4 times the bytes; ONNX Runtime rounds it when a session begins.
                extra_options={"ActivationSymmetric": True, "WeightSymmetric": True, "QuantizeBias": False},
                calibration_cache_path=self._ranges,
            )
        return pack(onnx.load(self._made))

    def dynamic(self) -> onnx.ModelProto:
        """Quantise weights to int8, and each activation by its own range at run time; convolutions stay in float."""
        with _silent():
            quantize_dynamic(
                str(self._ready),
                str(self._made),
                op_types_to_quantize=["MatMul", "Gemm"],
                nodes_to_exclude=self._excluded(()),
                per_channel=True,
                reduce_range=True,
                weight_type=QuantType.QInt8,
            )
        return pack(onnx.load(self._made))

    def weights_only(self) -> onnx.ModelProto:
        """Quantise weights to int8; all activations stay in float."""
        return pack(self._model)

    def _excluded(self, in_float: Collection[str]) -> list[str]:
        names = layer_names(self._model)
        chosen = [node.name for node in _candidates(self._model) if names[node.name] in in_float]
        return [*_without_weights(self._model), *chosen]


@contextmanager
def quantiser(source: Path, calibration: Calibration) -> Iterator[Quantiser]:
    """Yield a `Quantiser` of the float32 ONNX file `source`; its temporary files are removed after use."""
    with tempfile.TemporaryDirectory() as scratch:
        yield Quantiser(source, Path(scratch), calibration)


def layer_names(model: onnx.ModelProto) -> dict[str, str]:
    """Return node -> name of its layer in the network, for all products: by its weights, or the bias added to it.

    The exporter names transposed weights anew, and keeps the names of biases.
    """
    readers: dict[str, list[Any]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    found = {}
    for node in _candidates(model):
        after = [name for reader in readers.get(node.output[0], []) for name in reader.input]
        named = [name for name in (*node.input, *after) if name.endswith((".weight", ".bias"))]
        found[node.name] = named[0].rsplit(".", 1)[0].removeprefix("network.") if named else node.name
    return found


def _candidates(model: onnx.ModelProto) -> list[Any]:
    return [node for node in model.graph.node if node.op_type in OPERATORS]


def _without_weights(model: onnx.ModelProto) -> list[str]:
    """List products of two activations (attention scores), and all that reads the inputs of `KEPT_FLOAT` layers.

    A rounded input is a clipped one, for every reader: what lies far outside of the calibration data would seem to
    lie at its edge. A building unlike all others would be judged; a step before the severity's exponential is a step of
    a tenth of the severity after it.
    """
    fixed = {tensor.name for tensor in model.graph.initializer}
    named = _candidates(model)
    read = {node.input[0] for node in named if any(part in name for name in node.input for part in KEPT_FLOAT)}
    return [node.name for node in named if not fixed.intersection(node.input[1:2]) or node.input[0] in read]


@contextmanager
def _silent() -> Iterator[None]:
    """Silence the quantiser: it advises on each model a preparation that is already done."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
