"""Write one denoising step as ONNX: float32, half the bytes in fp16, a quarter in int8; any batch, any extent."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from plumbline.model.restoration.denoiser import FieldDenoiser

INPUTS, OUTPUT = ("noisy", "step", "conditions"), "clean"
LEAST_HALVED = 64
"""Values of a tensor of weights that is stored in 16 bits; smaller ones hardly count."""


def export_denoiser(model: FieldDenoiser, path: Path, opset: int) -> None:
    """Write the network with its spec. Weights keep the names of the module, so that adapters find them.

    Args:
        model: in evaluation mode. path: file to write. opset: of ONNX.
    """
    multiple = 2 ** (len(model.spec.channels) - 1)
    shape = (2, 4 * multiple, 6 * multiple)
    example = (
        torch.randn(shape[0], 2, *shape[1:]),
        torch.tensor([3, 7]),
        torch.randn(shape[0], len(model.spec.conditions), *shape[1:]),
    )
    batch = torch.export.Dim("batch", min=1, max=4096)
    rows, columns = (torch.export.Dim(name, min=2, max=128) * multiple for name in ("rows", "columns"))
    sizes = {0: batch, 2: rows, 3: columns}
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model,
            example,
            dynamo=True,
            opset_version=opset,
            input_names=list(INPUTS),
            output_names=[OUTPUT],
            dynamic_shapes=(sizes, {0: batch}, sizes),
            verbose=False,
        )
    assert program is not None
    written = program.model_proto
    about = json.loads(model.spec.model_dump_json())
    helper.set_model_props(written, {"name": "plumbline-restoration", "spec": json.dumps(about)})
    onnx.save(written, path)


def halve_weights(source: Path, out: Path) -> None:
    """Store the weights in 16 bits and compute in 32: half the bytes, at any device's usual speed."""
    model = onnx.load(source)
    del model.graph.value_info[:]
    casts = []
    for tensor in list(model.graph.initializer):
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.size < LEAST_HALVED:
            continue
        name = f"{tensor.name}.half"
        half = numpy_helper.from_array(values.astype(np.float16), name)
        model.graph.initializer.remove(tensor)
        model.graph.initializer.append(half)
        casts.append(helper.make_node("Cast", [name], [tensor.name], to=TensorProto.FLOAT))
    for number, node in enumerate(casts):
        model.graph.node.insert(number, node)
    onnx.save(model, out)


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, batches: Sequence[dict[str, NDArray[Any]]]) -> None:
        self._left: Iterator[dict[str, NDArray[Any]]] = iter(batches)

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        return next(self._left, None)


def quantize_weights(source: Path, out: Path, batches: Sequence[dict[str, NDArray[Any]]]) -> None:
    """Quantise convolutions and products to 8 bits, with ranges from `batches`; first and last layer stay in float.

    Static, symmetric, ranges for each channel of the weights; `reduce_range` for processors without VNNI.
    """
    model = onnx.load(source)
    del model.graph.value_info[:]
    cleaned = out.with_suffix(".clean.onnx")
    onnx.save(model, cleaned)
    convolutions = [node.name for node in model.graph.node if node.op_type == "Conv"]
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.ERROR)  # ONNX Runtime tells the root logger of each layer
    try:
        quantize_static(
            cleaned,
            out,
            _Reader(batches),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["Conv", "Gemm", "MatMul"],
            nodes_to_exclude=[convolutions[0], convolutions[-1]],
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            extra_options={"ActivationSymmetric": True, "WeightSymmetric": True},
        )
    finally:
        root.setLevel(before)
        cleaned.unlink(missing_ok=True)
    written = onnx.load(out)
    del written.metadata_props[:]
    written.metadata_props.extend(model.metadata_props)
    onnx.save(written, out)
