"""Hold the parameters of pruning, quantisation and export."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from plumbline.params.plugins import IMPORTANCE
from plumbline.params.section import Section
from plumbline.params.train import MAX_WEIGHT, Optimise

ImportanceKind = Annotated[str, IMPORTANCE.name()]


Power = Annotated[float, Field(ge=0, le=8)]


class Powers(Section):
    """Exponents by kind of channel: `1 - ratio` to this power is left. 1: the share that
    `ratio` gives."""

    shared: Power = 1.0
    """Width of the layers that see each scatterer, from the first layer to the pooling."""
    convolution: Power = 1.0
    """Between the two convolutions of a block."""
    attention: Power = 1.0
    """Query, key and value of each head."""
    feedforward: Power = 1.0
    """Between the two layers behind attention."""
    geometry: Power = 1.0
    """Width of the layer that reads the building's geometry."""
    joined: Power = 1.0
    """Width of the joined features of a building, before the heads."""


class Compress(Optimise):
    """Pruning with fine-tuning after it."""

    pruning_ratio: float = Field(ge=0, lt=1)
    """Share of channels removed."""
    powers: Powers = Powers()
    """Kinds of layers that lose more or fewer channels than the ratio says."""
    blocks: int | None = Field(default=None, ge=0)
    """Blocks of two convolutions of each stream that stay, at most; which ones, the losses
    say. None: all."""
    heads: int | None = Field(default=None, ge=1)
    """Heads of each attention layer that stay, at most; which ones, `importance` says. None:
    all."""
    multiple: int = Field(default=1, ge=1, le=64)
    """Widths are rounded to multiples of this. Those of 8 fill a register, and take less
    time than some below."""
    importance: ImportanceKind = "taylor"
    """Which channels go: those that the losses need least, or those with the smallest weights."""
    importance_batches: int = Field(default=10, ge=1)
    freeze: list[str] = []
    """Parameters that fine-tuning leaves as pruning left them: patterns as those of
    `train.freeze`, which does not act here: what lost channels has to learn anew."""
    distil_weight: float = Field(default=1.0, ge=0, le=MAX_WEIGHT)
    """Weight of following the unpruned network's answers while fine-tuning."""
    sensitivity: int = Field(default=1000, ge=0)
    """Buildings of the tune split for the scan of what each group of channels is worth; 0: no
    scan."""


EngineArtifact = Literal["pruned", "fp16", "int8"]
"""ONNX files that a TensorRT engine can be made of; the engine has the precision of its file."""

Through = Literal["onnx", "torch"]
"""The way to it: TensorRT's own parser of the ONNX file, or torch-tensorrt."""


class Change(Section):
    """Largest mean difference between answers in int8 and in float, over training buildings."""

    probability: float = Field(default=0.01, gt=0)
    """Largest absolute difference of the probability of a quadrant."""
    permille: float = Field(default=0.02, gt=0)
    """Largest absolute difference of the severity, permille."""


class Export(Section):
    """ONNX files in float32, fp16 and int8, and engines of them."""

    opset: int = Field(default=18, ge=18, le=20)
    """Operator set of the ONNX files. ONNX Runtime 1.16 reads 18 and 19. From 21 on, ONNX
    Runtime does not open static int8 files (1.31.1: it moves a rounding about and
    contradicts itself, microsoft/onnxruntime 25526), and older releases take int8 for uint8
    unsaid (27845)."""
    calibration_batches: int = Field(default=8, ge=2)
    calibration_batch_size: int = Field(default=64, ge=1)
    engines: list[EngineArtifact] = []
    """TensorRT engines to build in this stage; each needs a GPU and the extra `trt`. They
    are never packaged."""
    max_change: Change = Change()
    """Layers whose products in int8 change the answers most go back to float until this is kept."""
