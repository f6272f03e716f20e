"""What TensorRT's parser does not read in a quantised file: biases in int32."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, numpy_helper


def with_float_biases(path: Path) -> bytes:
    """The content of an ONNX file, with each bias in int32 written as the float32 that it stands for.

    ONNX Runtime's quantiser writes them so because its own int8 kernels add them up in int32. Versions of TensorRT
    refuse such a DequantizeLinear ("only activation types allowed as input to this layer"), and need none: they take
    the bias in float and round it themselves. A bias is `int32 * scale` by channel, so only float32's rounding is lost.
    """
    model = onnx.load(path)
    graph = model.graph
    held = {tensor.name: tensor for tensor in graph.initializer}
    folded = [
        node
        for node in graph.node
        if node.op_type == "DequantizeLinear"
        and node.input[0] in held
        and held[node.input[0]].data_type == TensorProto.INT32
    ]
    if not folded:
        return path.read_bytes()
    for node in folded:
        # No zero point is to be taken off: the operator's definition has none for int32.
        whole, scale = (numpy_helper.to_array(held[name]) for name in node.input[:2])
        graph.initializer.append(numpy_helper.from_array(whole.astype(scale.dtype) * scale, node.output[0]))
        graph.node.remove(node)
    used = {name for node in graph.node for name in node.input}
    for tensor in [tensor for tensor in graph.initializer if tensor.name not in used]:
        graph.initializer.remove(tensor)
    content: bytes = model.SerializeToString()
    return content
