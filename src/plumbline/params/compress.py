"""Hold the parameters of pruning, quantisation and export."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from plumbline.params.plugins import IMPORTANCE
from plumbline.params.section import Fraction, Positive, Section
from plumbline.params.train import MAX_WEIGHT, Curriculum, Optimise, Train

ImportanceKind = Annotated[str, IMPORTANCE.name()]


Power = Annotated[float, Field(ge=0, le=8)]


class Target(Section):
    """The score that the smallest network must reach, or its largest size; the ratio is then searched."""

    max_drop: Fraction | None = None
    """Share of right quadrants lost on the tune split, at most."""
    severity: float | None = Field(default=None, ge=0)
    """Rise of the mean error of severities on the tune split, relative, at most."""
    max_parameters: int | None = Field(default=None, ge=1)
    """Parameters of the network, at most; the smallest ratio that keeps to it."""
    tries: int = Field(default=5, ge=1, le=12)
    """Networks that are fine-tuned shortly and judged; each halves what is not known of the ratio."""
    largest_ratio: float = Field(default=0.9, gt=0, lt=1)
    """The search is between 0 and this."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        accuracy = self.max_drop is not None or self.severity is not None
        if accuracy == (self.max_parameters is not None):
            raise ValueError("give max_drop, severity or both; or else max_parameters")
        return self


class Short(Section):
    """The short fine-tuning of a network that is judged, or pruned again; all its buildings are drawn in each epoch."""

    buildings: int = Field(default=8000, ge=1)
    """Of the training split, drawn at random."""
    epochs: int = Field(default=2, ge=1)
    learning_rate: Positive = 0.001


class Powers(Section):
    """Exponents by kind of channel: `1 - ratio` to this power is left. 1: the share that `ratio` gives."""

    shared: Power = 1.0
    """Of each scatterer, from the first layer to the pooling."""
    convolution: Power = 1.0
    """Between the two convolutions of a block."""
    attention: Power = 1.0
    """Query, key and value of each head."""
    feedforward: Power = 1.0
    """Between the two layers behind attention."""
    geometry: Power = 1.0
    """Of the layer that reads the building's geometry."""
    joined: Power = 1.0
    """Of all that is known of a building, before the answers."""


class Compress(Optimise):
    """Pruning with fine-tuning after it."""

    pruning_ratio: float | None = Field(default=None, ge=0, lt=1)
    """Share of channels removed; or a `target`."""
    target: Target | None = None
    """Search the ratio instead of stating it."""
    powers: Powers = Powers()
    """Kinds of layers that lose more or fewer channels than the ratio says."""
    blocks: int | None = Field(default=None, ge=0)
    """Blocks of two convolutions of each stream that stay, at most; which ones, the losses say. None: all."""
    heads: int | None = Field(default=None, ge=1)
    """Heads of each attention layer that stay, at most; which ones, `importance` says. None: all."""
    multiple: int = Field(default=1, ge=1, le=64)
    """Widths are rounded to multiples of this. Those of 8 fill a register, and take less time than some below."""
    pruning_steps: int = Field(default=1, ge=1, le=20)
    """Channels go in so many steps of equal numbers, with a short fine-tuning between them."""
    importance: ImportanceKind = "taylor"
    """Which channels go: those that the losses need least, or those with the smallest weights or norm scales."""
    importance_batches: int = Field(default=10, ge=1)
    freeze: list[str] = []
    """Parameters that fine-tuning leaves as pruning left them: patterns as those of `train.freeze`, which does not act
    here: what lost channels has to learn anew."""
    distil_weight: float = Field(default=1.0, ge=0, le=MAX_WEIGHT)
    """Weight of following the unpruned network's answers while fine-tuning."""
    quantisation_aware: int = Field(default=0, ge=0)
    """The last epochs of the fine-tuning, so many, in which the network answers as static int8 will; one of them is
    kept. 0: none."""
    short: Short = Short()
    sensitivity: int = Field(default=1000, ge=0)
    """Buildings of the tune split for the scan of what each group of channels is worth; 0: no scan."""

    @model_validator(mode="after")
    def _ratio_or_target(self) -> Self:
        if (self.pruning_ratio is None) == (self.target is None):
            raise ValueError("give either pruning_ratio or target")
        return self

    @model_validator(mode="after")
    def _no_more_than_all(self) -> Self:
        if self.quantisation_aware > self.epochs:
            raise ValueError(
                f"quantisation_aware: {self.quantisation_aware} found, and there are {self.epochs} epochs; give as many"
                " or fewer"
            )
        return self

    def short_run(self, losses: Train) -> Train:
        """Return the settings of the short fine-tuning; losses, seed and threads come from `losses`."""
        changed = {
            "epochs": self.short.epochs,
            "patience": self.short.epochs,
            "learning_rate": self.short.learning_rate,
            "weight_decay": self.weight_decay,
            "schedule": "cosine",
            "batch_size": self.batch_size or 128,
            "tokens": self.tokens,
            "accumulate": 1,
            "ema_decay": 0.0,
            "warmup_epochs": 0.0,
            "warmup_share": 0.0,
            # No 16 bits are asked of Lightning here, and to compile each width takes longer than the run.
            "precision": 32,
            "compile": False,
            "curriculum": Curriculum(),  # it would end before all are drawn, or begin with none of the few it has
        }
        return losses.model_copy(update=changed)


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

    opset: int = Field(default=18, ge=18, le=20)
    """Operator set of the ONNX files. ONNX Runtime 1.16 reads 18 and 19. From 21 on, ONNX Runtime does not open static
    int8 files (1.31.1: it moves a rounding about and contradicts itself, microsoft/onnxruntime 25526), and older
    releases take int8 for uint8 unsaid (27845)."""
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
