"""Define section `adapt`."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from plumbline.params.section import Fraction, Positive, Section
from plumbline.params.train import MAX_THREADS, MAX_WEIGHT, Train, check_weights


class Adapt(Section):
    """What an adapter may change of a trained model, and how it is fitted to a few labels."""

    rank: int = Field(default=4, ge=4, le=16)
    """Of the low-rank changes (Hu et al. 2022)."""
    alpha: float = Field(default=8.0, gt=0, le=1000)
    """A change is multiplied by `alpha / rank`, so that another rank needs no other learning rate."""
    targets: list[str] = Field(
        default=["heads.join_geometry.weight", "heads.join_pooled.*.weight", "neck.attention.*.attention.*.weight"],
        min_length=1,
    )
    """Matrices and convolutions that get a low-rank change: patterns of their names in the network. Of the default ones
    the first, as many as `max_share` holds at this rank."""
    unfreeze: list[str] = [
        "*norm*",
        "heads.join_*.bias",
        "heads.quadrant_head.*",
        "heads.severity_head.*",
        "heads.accepted_head.*",
    ]
    """Parameters that are changed as a whole, late."""
    unfreeze_at: Fraction = 0.5
    """Share of the epochs after which they are."""
    max_share: float = Field(default=0.08, gt=0, le=1)
    """Of the network's parameters, changed at most."""
    epochs: int = Field(default=40, ge=1, le=10_000)
    learning_rate: Positive = 0.002
    weight_decay: float = Field(default=0.1, ge=0, le=10)
    """Pulls every change towards none, that is to the base."""
    batch_size: int = Field(default=25, ge=1, le=65536)
    quadrant_weight: float = Field(default=1.0, ge=0, le=MAX_WEIGHT)
    severity_weight: float = Field(default=2.0, ge=0, le=MAX_WEIGHT)
    augment: bool = True
    """Mirror and turn each building's frame at random: eight examples of each."""
    folds: int = Field(default=5, ge=2, le=100)
    """Parts that the labelled buildings are held out in, one after another, to measure and to calibrate."""
    block_m: Positive = 200.0
    """Side of the square blocks that stay in one fold, m; halved until there are enough of them."""
    min_labels: int = Field(default=20, ge=5)
    """Labelled buildings that can be judged, at least."""
    min_interval_labels: int = Field(default=40, ge=10)
    """From so many the interval is set anew: the share that it then holds varies by 5 points from city to city."""
    min_temperature_labels: int = Field(default=40, ge=10)
    """From so many buildings with a quadrant the temperature is set anew."""
    caution: float = Field(default=1.0, ge=0)
    """A simpler way counts that is worse by at most so many standard errors: 0 takes what was best."""
    seed: int = Field(default=0, ge=0, le=2**32 - 1)
    threads: int = Field(default=0, ge=0, le=MAX_THREADS)
    """CPU threads; 0: all."""

    @model_validator(mode="after")
    def _losses(self) -> Self:
        check_weights(self.quadrant_weight, self.severity_weight)
        return self

    @property
    def late_epoch(self) -> int:
        """First epoch, counted from 0, in which parameters are changed as a whole."""
        return round(self.unfreeze_at * self.epochs)

    def as_train(self) -> Train:
        """Return the settings of the optimisation that fits the changes, in the form that training takes."""
        return Train(
            epochs=self.epochs,
            patience=self.epochs,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            batch_size=self.batch_size,
            schedule="cosine",
            warmup_share=0.1,
            quadrant_weight=self.quadrant_weight,
            severity_weight=self.severity_weight,
            augment=self.augment,
            seed=self.seed,
            threads=self.threads,
        )
