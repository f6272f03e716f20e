"""Hold the parameters of the network and its training."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from plumbline.params.plugins import (
    ATTENTION,
    CONVOLUTION,
    PADDING,
    POOLING,
    POSITION,
    QUADRANT_LOSS,
    SEVERITY_LOSS,
)
from plumbline.params.section import Checks, Positive, Section

QuadrantKind = Annotated[str, QUADRANT_LOSS.name()]
SeverityKind = Annotated[str, SEVERITY_LOSS.name()]
PaddingKind = Annotated[str, PADDING.name()]
MAX_THREADS = 1024
"""More than any one process can use; the operating system refuses some number above it."""
MAX_WEIGHT = 1e6
"""Largest weight of a loss."""
SHARDED = ("fsdp", "zero2")
"""Values of `strategy` by which each process keeps a share of weights, gradients and
optimiser state."""
AUTO = 0
"""Value that `batch_size: auto` is read as."""


def _auto(value: Any) -> Any:
    if isinstance(value, str) and value != "auto" and not value.isdecimal():
        raise ValueError("a whole number of buildings needed, or `auto`")
    return AUTO if value == "auto" else value


class Curriculum(Section):
    """The first epoch, counted from 1, in which buildings of each difficulty are drawn.

    Those whose difficulty is not known are always drawn. The run ends with none of the
    epochs before all are drawn.
    """

    easy: int = Field(default=1, ge=1)
    medium: int = Field(default=1, ge=1)
    hard: int = Field(default=1, ge=1)

    @property
    def levels(self) -> tuple[int, int, int]:
        """In the order of the codes of `difficulty`."""
        return self.easy, self.medium, self.hard

    @property
    def complete(self) -> int:
        """The first epoch, counted from 0, in which all are drawn."""
        return max(self.levels) - 1


class Optimise(Section):
    """One run of optimisation."""

    epochs: int = Field(ge=1, le=10_000)
    patience: int = Field(ge=1, le=10_000)
    """Epochs without a better score before stopping; by `plateau` the rate halves after a
    third of them."""
    learning_rate: Positive
    weight_decay: float = Field(default=0.01, ge=0, le=10)
    """Each step takes this times the rate off every weight (AdamW)."""
    batch_size: Annotated[int, BeforeValidator(_auto)] = Field(default=128, ge=0, le=65536)
    """Buildings a batch of one process; `auto` (or 0): a power of two by the free memory
    and the data, see `train/fit/batch_size.py`."""
    accumulate: int = Field(default=1, ge=1, le=4096)
    """Batches of each process whose gradients make one step; the step is that of one batch
    of as many buildings."""
    schedule: Literal["plateau", "cosine", "constant"] = "plateau"
    """Schedule of the learning rate: half as large when the score stops rising, half a
    cosine to 0 at `epochs`, or constant."""
    warmup_epochs: float = Field(default=0.0, ge=0)
    """Epochs in which the rate rises evenly from 0."""
    warmup_share: float = Field(default=0.0, ge=0, lt=1)
    """Length of the warm-up as a share of `epochs`."""
    ema_decay: float = Field(default=0.0, ge=0, lt=1)
    """Share of the mean of the weights that stays at each step; the mean is evaluated and
    saved. 0: no mean."""
    curriculum: Curriculum = Curriculum()

    def checks(self) -> Checks:
        """Return the rules between its keys."""
        return [
            (
                self.warmup_epochs and self.warmup_share,
                "give warmup_epochs or warmup_share, not both",
                "warmup.given_twice",
            ),
            (
                self.warmup_epochs >= self.epochs,
                f"warmup_epochs: {self.warmup_epochs:g} found, fewer than the {self.epochs} "
                "epochs needed",
                "warmup.too_long",
            ),
            *(
                (
                    level > self.epochs,
                    f"curriculum.{name}: {level} found, beyond the {self.epochs} epochs; raise "
                    "epochs, or lower it",
                    "curriculum.beyond_epochs",
                )
                for name, level in self.curriculum.model_dump().items()
            ),
        ]


class FitOptions(Optimise):
    """Settings that every kind of training shares."""

    gradient_clip: Positive = 1.0
    seed: int = Field(default=0, ge=0, le=2**32 - 1)
    threads: int = Field(default=0, ge=0, le=MAX_THREADS)
    """CPU threads; 0: all."""
    freeze: list[str] = []
    """Parameters that keep their values: patterns of their names in the network, as
    `encoder.*` or `*.bias`."""
    start_from: list[str] = Field(default=["checkpoint", "random"], min_length=1)
    """Sources of the initial weights; the first that exists is used. `checkpoint`: this
    same run, interrupted; `random`: new random weights; `pretrained`: the model that comes
    with Plumbline; else the folder of a trained model."""
    precision: Literal[32, "bf16", "fp16"] = 32
    """Precision of products in training; weights stay in float32. fp16 (with scaled loss)
    needs a GPU, and auto or ddp."""
    compile: bool = False
    """Let torch compile what a step computes, for GPUs; docs/training.md says what it needs
    and costs."""
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    devices: int = Field(default=1, ge=1, le=1024)
    """Processes on each machine, each with its own GPU where there are any; torchrun starts
    them."""
    nodes: int = Field(default=1, ge=1, le=4096)
    """Machines. Each runs the same command under torchrun or SLURM."""
    strategy: Literal["auto", "ddp", "fsdp", "zero2"] = "auto"
    """Strategy by which the processes share the work; `auto`: ddp if there are several.
    `zero2` shards gradients and the optimiser's state, `fsdp` frees weights between the
    forward and the backward pass, too."""
    communication: Literal["none", "fp16", "bf16", "powersgd"] = "none"
    """Compression of the gradients between processes; only with ddp."""
    profile: Literal["none", "simple", "pytorch"] = "none"
    """Write where the time goes into `.plumbline/profile`, for each process: `simple` a
    table of the parts of a run; `pytorch` a table of operators in a few steps, and these as
    a trace that a browser draws (`chrome://tracing`)."""

    def checks(self) -> Checks:
        """Return the rules between its keys."""
        is_sharded = self.strategy in SHARDED
        return [
            *super().checks(),
            (
                "checkpoint" in self.start_from[1:] or "random" in self.start_from[:-1],
                f"start_from: {self.start_from} found; checkpoint can only come first, and "
                "random only last",
                "start_from.wrong_order",
            ),
            (
                self.communication != "none" and is_sharded,
                f"communication: {self.communication} works with strategy ddp, not {self.strategy}",
                "communication.sharded",
            ),
            (
                self.precision == "fp16" and is_sharded,
                f"precision: fp16 found with strategy {self.strategy}, whose scaled loss has "
                "never been run. Use "
                "precision bf16 or 32, or strategy auto or ddp",
                "precision.sharded",
            ),
            (
                self.compile and is_sharded,
                f"compile: true found with strategy {self.strategy}, which shards the weights. "
                "Use false, or "
                "strategy auto or ddp",
                "compile.sharded",
            ),
            (
                self.communication == "powersgd" and self.precision == "fp16",
                "communication: powersgd found with precision fp16; it keeps what it loses, and "
                "an overflow would "
                "never leave it. Use precision bf16, or communication fp16",
                "communication.overflow",
            ),
        ]


class Train(FitOptions):
    """Training."""

    quadrant_weight: float = Field(default=1.0, ge=0, le=MAX_WEIGHT)
    severity_weight: float = Field(default=2.0, ge=0, le=MAX_WEIGHT)
    quadrant_loss: QuadrantKind = "cross_entropy"
    severity_loss: SeverityKind = "pinball"
    """Loss of the middle of the interval; see `model/losses.py`. Its ends always have the
    pinball loss."""
    augment: bool = True
    """Mirror and turn each building's frame at random (the eight symmetries of the compass)."""
    padding: PaddingKind = "mask"
    """Padding of shorter sequences of a batch. The network masks it; see docs/training.md."""
    balance: Literal["none", "weights", "oversample"] = "none"
    """Way to balance rare examples: by their weight in the losses, or by drawing them more
    often."""
    balance_by: Literal["category", "quadrant", "both", "severity"] = "category"
    """Property by which an example is rare: its Burland category, its quadrant, both
    together, or the density of severities around its own. With `augment`, quadrants are
    turned into each other and balanced already."""

    def checks(self) -> Checks:
        """Return the rules between its keys."""
        weights = self.quadrant_weight, self.severity_weight
        words = (
            "quadrant_weight, severity_weight: 0 and 0 found; one above 0 needed, else "
            "nothing is learnt"
        )
        return [*super().checks(), (not any(weights), words, "loss.no_weight")]


AttentionKind = Annotated[str, ATTENTION.name()]
ConvolutionKind = Annotated[str, CONVOLUTION.name()]
PoolingKind = Annotated[str, POOLING.name()]
BY_LENGTH = "auto"
PositionKind = Annotated[str, POSITION.name(BY_LENGTH)]


class Model(Section):
    """The two-stream network."""

    channels: int = Field(default=48, ge=4, le=1024)
    """Channels of each convolution stream."""
    blocks: int = Field(default=2, ge=1, le=16)
    """Convolution blocks a stream."""
    kernel: int = Field(default=3, ge=1, le=31)
    convolution: ConvolutionKind = "plain"
    """`separable`: along the sequence and across channels apart, with a fraction of the weights."""
    heads: int = Field(default=4, ge=1, le=64)
    attention: AttentionKind = "sdpa"
    """Implementation of attention; `sdpa` and `ragged` have the same weights and answers.
    `ragged` (for many short buildings) is for GPUs, and is exported as `sdpa`."""
    attention_layers: int = Field(default=1, ge=0, le=16)
    max_attention_length: int = Field(default=1024, ge=1)
    """Sequences longer than this pass without attention."""
    position: PositionKind = "auto"
    """Position in the sequence; `auto`: learned up to 64, sinusoidal for longer
    `prepare.max_points`."""
    pooling: PoolingKind = "mean_max"
    """Pooling of scatterers: means, largest values, standard deviations, or a mean with
    learned weights."""
    hidden: int = Field(default=96, ge=4, le=4096)
    """Width of the layer before the heads."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    checkpoint_activations: bool = False
    """Training computes what is within blocks and attention layers again for the gradients
    instead of keeping it: less memory for the time of one more pass forward, same results."""

    def checks(self) -> Checks:
        """Return the rules between its keys."""
        width = 2 * self.channels
        return [
            (self.kernel % 2 == 0, f"kernel: {self.kernel} found, must be odd", "kernel.even"),
            (
                width % self.heads,
                f"heads: {self.heads} found, must divide twice model.channels ({width})",
                "heads.no_divisor",
            ),
        ]
