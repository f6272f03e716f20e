"""Section `train`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from plumbline.params.section import Fraction, Positive, Section


class Optimise(Section):
    """One run of optimisation."""

    epochs: int = Field(ge=1, le=10_000)
    patience: int = Field(ge=1, le=10_000)
    """Epochs without a better score before stopping; the rate halves after a third of them."""
    learning_rate: Positive
    weight_decay: float = Field(default=0.01, ge=0)
    batch_size: int = Field(default=128, ge=1, le=65536)


class Train(Optimise):
    """Training."""

    quadrant_weight: float = Field(default=1.0, ge=0)
    severity_weight: float = Field(default=2.0, ge=0)
    augment: bool = True
    """Mirror and turn each building's frame at random (the eight symmetries of the compass)."""
    padding: Literal["mask", "mean", "median", "last", "replicate"] = "mask"
    """What fills shorter sequences of a batch. The network masks it; see docs/padding.md."""
    perturb: Fraction = 0.5
    """Share of the examples that `point_dropout`, `track_dropout` and `noise` act on, where one of them is above 0."""
    point_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Probability that a scatterer is left out; as many stay as the smallest building of the split has."""
    track_dropout: Fraction = 0.0
    """Probability that a building seen by several tracks loses one of them."""
    noise: float = Field(default=0.0, ge=0, le=10)
    """Standard deviation of what is added to each displacement, in its own standard errors."""
    balance: Literal["none", "weights", "oversample"] = "none"
    """How rare examples are helped: by their weight in the losses, or by being drawn more often."""
    balance_by: Literal["category", "quadrant", "both", "severity"] = "category"
    """What makes an example rare: its Burland category, its quadrant, both together, or the density of severities
    around its own. With `augment`, quadrants are turned into each other and balanced already."""
    balance_strength: Fraction = 1.0
    """Power of the rarity: 1 makes all classes count the same, 0 changes nothing, 0.5 is the square root."""
    gradient_clip: Positive = 1.0
    seed: int = Field(default=0, ge=0, le=2**32 - 1)
    threads: int = Field(default=0, ge=0)
    """CPU threads; 0: all."""
