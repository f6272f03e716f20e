"""What all sections of `params.yaml` share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0, le=1)]


Positive = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """A section: unknown keys are refused, nothing changes after loading, NaN is no number."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
