"""Build an engine from the network itself by torch-tensorrt, without an ONNX file between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from plumbline.export.onnx import dynamic_shapes, example, in_half
from plumbline.export.tensorrt.runtime import Profile
from plumbline.export.weights import read_network
from plumbline.model.diagnosis import Diagnosis


def plan_from_torch(
    weights: Path,
    widths: Path,
    *,
    artifact: str,
    shapes: Profile,
    columns: dict[str, int],
    timings: Path,
) -> bytes:
    """Build TensorRT's plan for the network of a package, in float32 (`pruned`) or mixed
    with half precision (`fp16`).

    The whole network becomes one engine, so that the same runtime runs it as one that came
    from ONNX.

    Raises:
        InputError: the weights or widths are damaged.
    """
    import torch_tensorrt

    model = read_network(weights, widths)
    program = trace(in_half(model) if artifact == "fp16" else model, "cuda")
    inputs = [
        torch_tensorrt.Input(
            name=name,
            min_shape=least,
            opt_shape=best,
            max_shape=most,
            dtype=torch.bool if name == "mask" else torch.float32,
        )
        for name, (least, best, most) in shapes.shapes(columns).items()
    ]
    plan: bytes = torch_tensorrt.dynamo.convert_exported_program_to_serialized_trt_engine(
        program,
        arg_inputs=inputs,
        disable_tf32=True,
        timing_cache_path=str(timings),
        # By default torch-tensorrt takes the bias of an attention, here the padding, for a
        # causal mask.
        attn_bias_is_causal=False,
    )
    return plan


def trace(model: Diagnosis, device: str) -> Any:
    """Return the model as an exported program of torch, for any batch and length that it takes."""
    inputs = tuple(value.to(device) for value in example())
    with torch.no_grad():
        return torch.export.export(model.to(device), inputs, dynamic_shapes=dynamic_shapes(model))
