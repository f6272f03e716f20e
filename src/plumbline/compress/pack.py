"""Save bytes in a quantised model: weights that the int8 arithmetic left in float, or stores twice.

Every initialiser counts: of a small network the scales, offsets and biases are a third of the bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

SMALLEST_MATRIX = 64
"""Weights of a matrix from which 8 bits and a scale a channel are fewer bytes, the operator's own included."""
SMALLEST_VECTOR = 5
"""Values of a vector from which 16 bits each are fewer bytes, its length included."""
SMALLEST_TRIANGLE = 12
"""Rows of a triangular matrix from which one half in 16 bits is fewer bytes, with the numbers that unfold it."""
SCALE_ERROR = 1e-3
"""Of a scale that may lose digits, relative; half a step of a weight's own rounding is 1 / 254 of the largest."""
HALF = ("network.", "novelty_whitening")
"""Beginnings of names whose values may lose digits beyond the third."""


def pack(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` with 8-bit instead of float weights, and float activations; see `_weights` and `_halve`."""
    packed = onnx.ModelProto()
    packed.CopyFrom(model)
    _without_leftovers(packed)
    _weights(packed)
    _halve(packed)
    _share(packed)
    _short_names(packed)
    del packed.graph.value_info[:]
    onnx.checker.check_model(packed)
    return packed


def _without_leftovers(model: onnx.ModelProto) -> None:
    """Remove unused initialisers."""
    read = {name for node in model.graph.node for name in node.input} | {out.name for out in model.graph.output}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in read]
    _replace(model, kept)


def _weights(model: onnx.ModelProto) -> None:
    """Store float matrices of products as int8 with a scale for each output channel, unfolded when a session begins.

    All 8 bits are used: nothing is multiplied in 8 bits, so nothing saturates.
    """
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    axes: dict[str, int] = {}
    for node in model.graph.node:
        if node.op_type in ("MatMul", "Gemm", "Conv") and len(node.input) > 1 and node.input[1] in tensors:
            transposed = any(given.name == "transB" and given.i for given in node.attribute)
            axes[node.input[1]] = 0 if node.op_type == "Conv" or transposed else len(tensors[node.input[1]].dims) - 1
    added, kept = [], []
    for tensor in model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if (
            tensor.name not in axes
            or value.dtype != np.float32
            or value.size < SMALLEST_MATRIX
            or _is_kept(tensor.name)
        ):
            kept.append(tensor)
            continue
        axis = axes[tensor.name]
        code, scale = rounded_weights(value, axis)
        parts = [f"{tensor.name}_quantized", f"{tensor.name}_scale"]
        kept += [numpy_helper.from_array(code, parts[0]), numpy_helper.from_array(scale, parts[1])]
        added.append(helper.make_node("DequantizeLinear", parts, [tensor.name], f"{tensor.name}_wide", axis=axis))
    _replace(model, kept)
    _put_first(model, added)


def rounded_weights(value: NDArray[np.float32], axis: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return int8 weights and the value of one code step along `axis`; symmetric about 0."""
    others = tuple(place for place in range(value.ndim) if place != axis)
    largest = np.abs(value).max(axis=others)
    # A share of the smallest numbers there are is 0, and nothing could be divided by it.
    least = np.finfo(np.float32).tiny
    scale = np.where(largest > 0, np.maximum(largest / 127, least), 1).astype(np.float32)
    shape = [-1 if place == axis else 1 for place in range(value.ndim)]
    return np.rint(value / scale.reshape(shape)).astype(np.int8), scale


def _halve(model: onnx.ModelProto) -> None:
    """Store the remaining float weights (mostly biases, norms and scales) in 16 bits, widened when a session begins.

    All in one initialiser that is cut into them: an operator for each would take more bytes than it saves. Of a
    triangular matrix the other half is left out.
    """
    halved: list[tuple[str, NDArray[np.float32]]] = []
    kept: list[Any] = []
    scales = _scales_of_weights(model)
    for tensor in model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.dtype == np.float32 and _may_be_halved(tensor.name, value, tensor.name in scales):
            halved.append((tensor.name, value))
        else:
            kept.append(tensor)
    if not halved:
        return
    added: list[Any] = []
    parts: list[tuple[str, NDArray[np.float32]]] = []
    for name, value in halved:
        if value.ndim == 1:
            parts.append((name, value))
        elif is_triangle(value):
            parts.append((f"{name}_flat", value[np.triu_indices(len(value))]))
            more, nodes = triangle(name, f"{name}_flat", len(value))
            kept, added = [*kept, *more], [*added, *nodes]
        else:
            parts.append((f"{name}_flat", value.ravel()))
            kept.append(numpy_helper.from_array(np.array(value.shape, np.int64), f"{name}_shape"))
            added.append(helper.make_node("Reshape", [f"{name}_flat", f"{name}_shape"], [name], f"{name}_shaped"))
    sizes = np.array([value.size for _, value in parts])
    kept.append(numpy_helper.from_array(np.concatenate([value for _, value in parts]).astype(np.float16), "half"))
    # The operator asks for lengths in 64 bits.
    kept.append(numpy_helper.from_array(sizes.astype(np.min_scalar_type(sizes.max())), "half_sizes"))
    widened = [
        helper.make_node("Cast", ["half"], ["wide"], "wide", to=onnx.TensorProto.FLOAT),
        helper.make_node("Cast", ["half_sizes"], ["wide_sizes"], "wide_sizes", to=onnx.TensorProto.INT64),
        helper.make_node("Split", ["wide", "wide_sizes"], [name for name, _ in parts], "parts", axis=0),
    ]
    _replace(model, kept)
    _put_first(model, [*widened, *added])


def is_triangle(value: NDArray[np.float32]) -> bool:
    """Return whether a square matrix is 0 below its diagonal, and large enough for storing half of it to pay."""
    square = value.ndim == 2 and value.shape[0] == value.shape[1] and len(value) >= SMALLEST_TRIANGLE
    return square and not np.tril(value, -1).any()


def triangle(name: str, flat: str, side: int) -> tuple[list[Any], list[Any]]:
    """Return initialisers and operators that build the matrix `name` from its upper triangle, row by row in `flat`.

    Row i begins at i * (2 * side - 1 - i) / 2 less i, so that its column j is that many values on, plus j.
    """
    numbers = {"none": 0, "one": 1, "two": 2, "side": side, "last": 2 * side - 1}
    names = {word: f"{name}_{word}" for word in numbers}
    tensors = [numpy_helper.from_array(np.array(number, np.int64), names[word]) for word, number in numbers.items()]
    steps = [
        ("Range", [names["none"], names["side"], names["one"]], "column"),
        ("Unsqueeze", [f"{name}_column", names["one"]], "row"),
        ("Sub", [names["last"], f"{name}_row"], "ahead"),
        ("Mul", [f"{name}_row", f"{name}_ahead"], "twice"),
        ("Div", [f"{name}_twice", names["two"]], "begin"),
        ("Add", [f"{name}_begin", f"{name}_column"], "place"),
        ("Gather", [flat, f"{name}_place"], "square"),
    ]
    nodes = [helper.make_node(kind, given, [f"{name}_{made}"], f"{name}_{made}") for kind, given, made in steps]
    nodes.append(helper.make_node("Trilu", [f"{name}_square"], [name], f"{name}_triangle", upper=1))
    return tensors, nodes


def _scales_of_weights(model: onnx.ModelProto) -> set[str]:
    """List the scales of 8-bit weights, channel by channel; activations have one for all."""
    return {node.input[1] for node in model.graph.node if node.op_type == "DequantizeLinear"}


def _may_be_halved(name: str, value: NDArray[np.float32], is_scale: bool) -> bool:
    if value.size < SMALLEST_VECTOR:
        return False
    if is_scale:
        # A scale is a factor of all weights of its channel: it is to err by less than they do, each by its rounding.
        with np.errstate(over="ignore"):
            return bool((np.abs(value.astype(np.float16).astype(np.float32) - value) <= value * SCALE_ERROR).all())
    # The range of 16 bits is small: of what is beyond it nothing would be left.
    return name.startswith(HALF) and bool(np.abs(value).max(initial=0) < float(np.finfo(np.float16).max))


def _is_kept(name: str) -> bool:
    """Return whether a matrix belongs to the novelty: an error of 1 % there would change who is judged."""
    return name.startswith("novelty")


def _short_names(model: onnx.ModelProto) -> None:
    """Rename the values between operators to numbers: names take more bytes than a small network's weights.

    What has a meaning outside keeps its name: inputs, outputs, weights, and the operators.
    """
    outputs = {out.name for out in model.graph.output}
    between = [name for node in model.graph.node for name in node.output if name and name not in outputs]
    names = {name: f"_{number}" for number, name in enumerate(between)}
    for node in model.graph.node:
        for part in (node.input, node.output):
            for place, name in enumerate(part):
                part[place] = names.get(name, name)
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            node.name = ""


def _share(model: onnx.ModelProto) -> None:
    """Share one initialiser among equal ones: offsets are zeros, and several layers have one input scale."""
    first: dict[tuple[int, tuple[int, ...], bytes], str] = {}
    names: dict[str, str] = {}
    kept = []
    for tensor in model.graph.initializer:
        content = (tensor.data_type, tuple(tensor.dims), numpy_helper.to_array(tensor).tobytes())
        names[tensor.name] = first.setdefault(content, tensor.name)
        if names[tensor.name] == tensor.name:
            kept.append(tensor)
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = names.get(name, name)
    _replace(model, kept)


def _replace(model: onnx.ModelProto, kept: list[Any]) -> None:
    copies = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
    del model.graph.initializer[:]
    model.graph.initializer.extend(copies)


def _put_first(model: onnx.ModelProto, added: list[Any]) -> None:
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend([*added, *nodes])
