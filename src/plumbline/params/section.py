"""What all sections of `params.yaml` share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

Fraction = Annotated[float, Field(ge=0, le=1)]


Positive = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """A section: unknown keys are refused, nothing changes after loading, NaN is no number."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_yes(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse yes and no where a number stands: Python counts them as 1 and 0."""
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation not in (bool, str):
            raise ValueError("neither yes nor no is meant here. Give a value as the documentation has it")
        return value
