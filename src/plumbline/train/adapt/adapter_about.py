"""What an adapter says of itself in `adapter.json`: of which model it is, how it was made, and what it is worth."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from plumbline.params import Prepare


def _judged(figures: dict[str, float | None]) -> dict[str, float | None]:
    missing = [key for key in ("quadrant_accuracy", "severity_mae") if key not in figures]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    return figures


Figures = Annotated[dict[str, float | None], AfterValidator(_judged)]
"""None: there is no such figure, as of quadrants where no label has one. Earlier versions wrote 0 for it."""


def shown(figure: float | None) -> str:
    """A figure as tables have it."""
    return "-" if figure is None else f"{figure:.3f}"


class AboutAdapter(BaseModel):
    """`adapter.json`."""

    model_config = ConfigDict(extra="forbid")
    format: int = Field(default=1, ge=1, le=1)
    name: str
    base_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Of the model that it changes, see `base_hash`."""
    weights_sha256: str = Field(default="0" * 64, pattern=r"^[0-9a-f]{64}$")
    """Of `adapter.safetensors`."""
    about_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Of all else that stands here, see `adapter_file.about_hash`; earlier versions wrote none."""
    rank: int = Field(ge=1)
    alpha: float = Field(gt=0, allow_inf_nan=False)
    parameters: int
    """Values that were trained."""
    share: float
    """The same, of the network's parameters."""
    labels: int
    """Buildings it was fitted to."""
    level: float = Field(ge=0, le=1)
    part: float
    """What held-out buildings chose of it, see `train.ways.Way`; hardly anything: the base, with other statistics."""
    temperature_calibrated: bool
    interval_calibrated: bool
    before: Figures
    """Figures of the base on those buildings."""
    after: Figures
    """Figures of the adapted model on each of them while it was held out."""
    prepare: Prepare = Prepare()
    """How scatterers were prepared, and must be for the adapted model."""
    preparation: int = Field(default=1, ge=1)
    """`features.PREPARATION` of the version of Plumbline that prepared them."""
    made: dict[str, Any] | None = None
    """The record of its making, see `serve.adapt`; earlier versions wrote none."""
