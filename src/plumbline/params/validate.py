"""Section `validate`."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from plumbline.params.section import Section


class Gate(Section):
    """One rule: a metric of an artifact on a slice, and one bound."""

    metric: str
    artifact: Literal["float32", "pruned", "fp16", "int8"]
    slice: str = "all"
    """A slice of `validate.slices`, or `worst`: all with at least `Validate.min_worst_slice` buildings."""
    min: float | None = None
    max: float | None = None
    max_drop_vs: Literal["float32", "champion", "baseline"] | None = None
    margin: float = 0.0
    """With `max_drop_vs`: how much worse may it be, in the metric's unit; negative: how much better it must be."""
    confidence: float | None = Field(default=None, gt=0.5, lt=1)
    """With `max_drop_vs`: of the one-sided bound of the drop; that of the section where it is left out."""

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        bounds = [name for name in ("min", "max", "max_drop_vs") if getattr(self, name) is not None]
        if len(bounds) != 1:
            raise ValueError(f"one of min, max, max_drop_vs is needed, {' and '.join(bounds) or 'none'} found")
        for name in ("margin", "confidence"):
            if getattr(self, name) and self.max_drop_vs is None:
                raise ValueError(f"{name} goes with max_drop_vs")
        return self


class Validate(Section):
    """The gates, and how the evidence is measured."""

    gates: list[Gate] = Field(min_length=1)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Of the one-sided bound of every drop, where a rule says no other."""
    min_slice: int = Field(default=50, ge=1)
    """A slice with fewer test buildings is reported without a figure."""
    min_worst_slice: int = Field(default=100, ge=1)
    """A rule on the slice `worst` looks at slices with at least as many test buildings."""
    min_interval_slice: int = Field(default=200, ge=1)
    """`interval_coverage_gap` looks at slices with at least as many test buildings."""
    latency_batch: int = Field(default=64, ge=1)
