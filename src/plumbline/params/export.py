"""Define section `export`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from plumbline.params.section import Section

EngineArtifact = Literal["pruned", "fp16", "int8"]
"""What a TensorRT engine can be made of; its precision is that of the ONNX file."""

Through = Literal["onnx", "torch"]
"""The way to it: TensorRT's own parser of the ONNX file, or torch-tensorrt."""

QuantisationKind = Literal["static", "dynamic", "weights"]


class Change(Section):
    """Largest mean difference between answers in int8 and in float, over training buildings."""

    probability: float = Field(default=0.01, gt=0)
    """Of a quadrant, absolute."""
    permille: float = Field(default=0.02, gt=0)
    """Of the severity, absolute."""


class Export(Section):
    """ONNX files in float32, fp16 and int8, and engines of them."""

    opset: int = Field(default=20, ge=18, le=20)
    """Of the ONNX files. From 21 on, ONNX Runtime does not open static int8 files (1.31.1: it moves a rounding about
    and contradicts itself, microsoft/onnxruntime 25526), and older releases take int8 for uint8 unsaid (27845)."""
    quantisation: QuantisationKind = "static"
    """Products in int8 with ranges from training buildings (`static`) or of each input (`dynamic`; convolutions in
    float); or `weights` in int8 and all products in float. Weights are in 8 bits by all of them."""
    calibration_batches: int = Field(default=8, ge=2)
    calibration_batch_size: int = Field(default=64, ge=1)
    engines: list[EngineArtifact] = []
    """TensorRT engines to build in this stage; each needs a GPU and the extra `trt`. They are never packaged."""
    engine_batch: int = Field(default=256, ge=1)
    """Buildings at a time that an engine takes at most."""
    max_change: Change = Change()
    """Of `static`; layers whose products in int8 change the answers most go back to float until this is kept."""
