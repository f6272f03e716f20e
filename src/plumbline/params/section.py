"""Define the base class of all sections of `params.yaml`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Checks = Iterable[tuple[object, str, str]]
"""Rules between the parameters of a section: whether one is broken, the message, and the
key of the error."""


class Section(BaseModel):
    """Base of all sections: it refuses unknown keys and NaN, and cannot be changed after
    loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def checks(self) -> Checks:
        """Return the rules between its keys; the first that is broken is refused."""
        return ()

    @model_validator(mode="after")
    def _keep_checks(self) -> Self:
        for is_broken, message, key in self.checks():
            if is_broken:
                raise PydanticCustomError(key, "{message}", {"message": message})
        return self

    @field_validator("*", mode="before")
    @classmethod
    def _no_yes(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse yes and no in place of a number: Python counts them as 1 and 0."""
        kind = cls.model_fields[str(info.field_name)].annotation
        held = (
            value.values()
            if isinstance(value, Mapping)
            else value
            if isinstance(value, list | tuple)
            else ()
        )
        among = _leaves(kind) & {int, float} and any(isinstance(item, bool) for item in held)
        if among or (isinstance(value, bool) and kind not in (bool, str)):
            raise PydanticCustomError(
                "params.yes_or_no",
                "yes and no are no values here. Give a value as in the documentation",
            )
        return value


def _leaves(kind: Any) -> set[Any]:
    """Return the plain types in an annotation."""
    parts = get_args(kind)
    return (
        set().union(*(_leaves(part) for part in parts))
        if parts
        else {kind}
        if isinstance(kind, type)
        else set()
    )
