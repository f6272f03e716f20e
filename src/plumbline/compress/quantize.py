"""Quantise weights and activations to int8 by ONNX Runtime's quantiser, in the layers with
nearly all weights."""

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
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from plumbline.core.errors import InputError
from plumbline.prepare.features.shards import SequenceSet

OPERATORS = ["MatMul", "Gemm", "Conv"]
"""Operators with the weights. To quantise all operators costs half of the accuracy
(docs/decisions)."""
KEPT_FLOAT = (
    "whitening",
    "quadrant_head",
    "severity_head",
    "accepted_head",
    "level_head",
    "mechanism_head",
)
"""Layers with activations in float, by parts of their weights' names: their outputs are the
answer."""
WHITENING = "novelty_whitening"
"""Weight that gets 16 bits: an error of 1 % there would change who is judged."""
SMALLEST_MATRIX = 64
"""Smallest matrix, in weights, that takes fewer bytes in int8, with a scale a channel and
an operator more."""


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    """Batches of real training buildings, all different."""

    def __init__(self, data: SequenceSet, batches: int, batch_size: int, seed: int) -> None:
        """Draw the batches.

        Raises:
            InputError: two contain the same values, so that the ranges are of fewer buildings than
                they seem.
        """
        index = np.random.default_rng(seed).permutation(len(data))[: batches * batch_size]
        drawn: list[NDArray[np.intp]] = [
            np.sort(part) for part in np.array_split(index, min(batches, len(index)))
        ]
        self._data = data
        self._batches = iter(drawn)
        if len({float(data.pad(part)["slope"].astype(float).sum()) for part in drawn}) < len(drawn):
            raise InputError(
                "int8 calibration: two batches of the training split hold the same values. Is a "
                "city there twice? "
                "Leave one out, or make export.calibration_batches smaller.",
                key="calibration.repeated_batch",
            )

    def get_next(self) -> dict[str, NDArray[np.generic]] | None:
        """Return the next batch, or None after the last."""
        index = next(self._batches, None)
        return None if index is None else self._data.pad(index)


class Quantiser:
    """A float32 model, quantised several times from one calibration of its activations."""

    def __init__(self, source: Path, scratch: Path, calibration: Calibration) -> None:
        """Prepare `source` in the folder `scratch`; see `Calibration`."""
        self._ready, self._ranges, self._made = (
            scratch / "ready.onnx",
            scratch / "ranges.json",
            scratch / "int8.onnx",
        )
        self._calibration = calibration
        plain = scratch / "plain.onnx"
        model = onnx.load(source)
        # The exporter's notes on intermediate shapes contradict the quantiser's; it infers its own.
        del model.graph.value_info[:]
        onnx.save(model, plain)
        quant_pre_process(str(plain), str(self._ready), skip_symbolic_shape=True)
        self._model = onnx.load(self._ready)

    def layers(self) -> list[str]:
        """List the layers that can have int8 activations, in the graph's order, attention
        included."""
        fixed = set(_without_weights(self._model))
        names = layer_names(self._model)
        return [names[node.name] for node in _candidates(self._model) if node.name not in fixed]

    def quantise(self, in_float: Collection[str] = ()) -> onnx.ModelProto:
        """Quantise weights and activations to int8, symmetric, weights per channel, in the
        quantise-dequantise form.

        Weights keep 7 of 8 bits where activations are in int8: without VNNI instructions
        the sums of 8-bit products saturate.

        Args:
            in_float: layers whose activations stay in float.
        """
        names = layer_names(self._model)
        chosen = [node.name for node in _candidates(self._model) if names[node.name] in in_float]
        with _silent():
            quantize_static(
                str(self._ready),
                str(self._made),
                None if self._ranges.exists() else self._calibration,
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=OPERATORS,
                nodes_to_exclude=[*_without_weights(self._model), *chosen],
                per_channel=True,
                reduce_range=True,
                activation_type=QuantType.QInt8,
                weight_type=QuantType.QInt8,
                # A bias in 32 bits with its scale is 4 times the bytes; ONNX Runtime rounds
                # it when a session begins.
                extra_options={
                    "ActivationSymmetric": True,
                    "WeightSymmetric": True,
                    "QuantizeBias": False,
                },
                calibration_cache_path=self._ranges,
            )
        model = onnx.load(self._made)
        store_weights(model)
        number_names(model)
        del model.graph.value_info[:]
        return model


@contextmanager
def quantiser(source: Path, calibration: Calibration) -> Iterator[Quantiser]:
    """Yield a `Quantiser` of the float32 ONNX file `source`; its temporary files are
    removed after use."""
    with tempfile.TemporaryDirectory() as scratch:
        yield Quantiser(source, Path(scratch), calibration)


def layer_names(model: onnx.ModelProto) -> dict[str, str]:
    """Return node -> name of its layer in the network, for all products: by its weights, or
    the bias added to it.

    The exporter names transposed weights anew, and keeps the names of biases.
    """
    readers: dict[str, list[Any]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    layer_of_node = {}
    for node in _candidates(model):
        later = [name for reader in readers.get(node.output[0], []) for name in reader.input]
        parameters = [name for name in (*node.input, *later) if name.endswith((".weight", ".bias"))]
        layer_of_node[node.name] = (
            parameters[0].rsplit(".", 1)[0].removeprefix("network.") if parameters else node.name
        )
    return layer_of_node


def _candidates(model: onnx.ModelProto) -> list[Any]:
    return [node for node in model.graph.node if node.op_type in OPERATORS]


def _without_weights(model: onnx.ModelProto) -> list[str]:
    """List products of two activations (attention scores), and all that reads the inputs of
    `KEPT_FLOAT` layers.

    A rounded input is clipped for every reader: a value far outside of the calibration data would
    seem to be at its edge. A building unlike all others would be judged; a step before the
    severity's exponential is a step of a tenth of the severity after it.
    """
    fixed = {tensor.name for tensor in model.graph.initializer}
    products = _candidates(model)
    read = {
        node.input[0]
        for node in products
        if any(part in name for name in node.input for part in KEPT_FLOAT)
    }
    return [
        node.name
        for node in products
        if not fixed.intersection(node.input[1:2]) or node.input[0] in read
    ]


def store_weights(model: onnx.ModelProto) -> None:
    """Store the matrices that the quantiser left in float with fewer bits, in place; they
    are widened at the start.

    The whitening gets 16 bits. The others get int8 with a scale for each output channel, in
    all 8 bits: nothing is multiplied in int8, so nothing saturates.
    """
    axes = _output_axes(model)
    tensors, widened = [], []
    for tensor in model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.dtype != np.float32 or value.size < SMALLEST_MATRIX or tensor.name not in axes:
            tensors.append(tensor)
        elif tensor.name == WHITENING:
            narrow = f"{tensor.name}_half"
            tensors.append(numpy_helper.from_array(value.astype(np.float16), narrow))
            widened.append(
                helper.make_node("Cast", [narrow], [tensor.name], to=onnx.TensorProto.FLOAT)
            )
        else:
            parts = [f"{tensor.name}_quantized", f"{tensor.name}_scale"]
            code, scale = round_weights(value, axes[tensor.name])
            tensors += [
                numpy_helper.from_array(code, parts[0]),
                numpy_helper.from_array(scale, parts[1]),
            ]
            widened.append(
                helper.make_node("DequantizeLinear", parts, [tensor.name], axis=axes[tensor.name])
            )
    _replace(model.graph.initializer, tensors)
    _replace(model.graph.node, [*widened, *model.graph.node])


def _output_axes(model: onnx.ModelProto) -> dict[str, int]:
    """Return second input of a product -> its axis of output channels."""
    axes = {}
    for node in _candidates(model):
        is_first = node.op_type == "Conv" or any(
            option.name == "transB" and option.i for option in node.attribute
        )
        axes[node.input[1]] = 0 if is_first else 1
    return axes


def round_weights(
    value: NDArray[np.float32], axis: int
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return int8 weights and the value of one code step along `axis`; symmetric about 0."""
    largest = np.abs(value).max(axis=tuple(place for place in range(value.ndim) if place != axis))
    # A share of the smallest numbers there are is 0, and nothing could be divided by it.
    scale = np.where(largest > 0, np.maximum(largest / 127, np.finfo(np.float32).tiny), 1).astype(
        np.float32
    )
    shape = [-1 if place == axis else 1 for place in range(value.ndim)]
    return np.rint(value / scale.reshape(shape)).astype(np.int8), scale


def number_names(model: onnx.ModelProto) -> None:
    """Replace all names but those of inputs, outputs and the network's weights by numbers,
    in place.

    The names take more bytes than a small network's weights.
    """
    graph = model.graph
    weights = (tensor.name for tensor in graph.initializer if tensor.name.startswith("network."))
    fixed = {"", *weights, *(value.name for value in (*graph.input, *graph.output))}
    numbers: dict[str, str] = {}
    for number, node in enumerate(graph.node):
        # Older runtimes name what they fuse after it: two without a name would have the same.
        node.name = str(number)
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name not in fixed:
                    names[place] = numbers.setdefault(name, f"_{len(numbers)}")
    for tensor in graph.initializer:
        tensor.name = numbers.get(tensor.name, tensor.name)


def _replace(field: Any, values: list[Any]) -> None:
    """Replace the content of a repeated field, from which some of `values` may come."""
    copies = [type(value).FromString(value.SerializeToString()) for value in values]
    del field[:]
    field.extend(copies)


@contextmanager
def _silent() -> Iterator[None]:
    """Silence the quantiser: it advises on each model a preparation that is already done."""
    former = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(former)
