"""Describe a package's model to MLflow, so that `mlflow.pyfunc.load_model` runs it without
Plumbline."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import mlflow.onnx
import numpy as np
import onnx
from mlflow.models import ModelSignature
from mlflow.types import Schema, TensorSpec

MODEL = "model.onnx"
"""Name of the ONNX file that MLflow runs; it must be beside the file `MLmodel`."""
REQUIREMENTS = ("numpy", "onnx", "onnxruntime", "pandas")
"""Packages that MLflow's flavour `onnx` imports."""
EXAMPLE_SIDE = 32
"""Size of each free dimension of the input example but the batch; the sides of a field are
multiples of 8 or 16."""


def write_mlflow_model(package: Path, default_model: str, out: Path) -> None:
    """Write an MLflow model with the flavours `onnx` and `python_function` into the new
    folder `out`.

    It gives the raw outputs of the package's model. The ONNX file in it is a copy, byte for
    byte: MLflow runs only a file beside `MLmodel`, and a package takes no further file.

    Args:
        package: folder of a package of any family.
        default_model: name of the ONNX file in it.
        out: folder to write.
    """
    model = onnx.load(package / default_model)
    signature = ModelSignature(_schema(model.graph.input), _schema(model.graph.output))
    mlflow.onnx.save_model(
        model,
        out,
        signature=signature,
        input_example={spec.name: _example(spec) for spec in signature.inputs.inputs},
        pip_requirements=list(REQUIREMENTS),
        onnx_execution_providers=["CPUExecutionProvider"],
        save_as_external_data=False,
    )
    shutil.copyfile(package / default_model, out / MODEL)


def _schema(values: Iterable[onnx.ValueInfoProto]) -> Schema:
    """Return names, types and shapes of a graph's inputs or outputs; a free dimension is -1."""
    specs = []
    for value in values:
        tensor = value.type.tensor_type
        shape = tuple(
            side.dim_value if side.HasField("dim_value") else -1 for side in tensor.shape.dim
        )
        specs.append(
            TensorSpec(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type), shape, value.name)
        )
    return Schema(specs)


def _example(spec: TensorSpec) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Return ones in the shape of an input with a batch of 1: it shows the form, its values
    mean nothing."""
    batch, *sides = spec.shape
    shape = (abs(batch), *(EXAMPLE_SIDE if side < 0 else side for side in sides))
    return np.ones(shape, spec.type)
