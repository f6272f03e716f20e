"""Section `compress`."""

from __future__ import annotations

from pydantic import Field

from plumbline.params.train import Optimise


class Compress(Optimise):
    """Pruning with fine-tuning after it, and quantisation."""

    pruning_ratio: float = Field(default=0.5, ge=0, lt=1)
    """Share of channels removed."""
    pruning_steps: int = Field(default=1, ge=1, le=20)
    importance_batches: int = Field(default=10, ge=1)
    distil_weight: float = Field(default=1.0, ge=0)
    """Weight of following the unpruned network's answers while fine-tuning."""
