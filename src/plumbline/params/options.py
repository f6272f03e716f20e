"""Hold the options of commands on a user's own files: of the command line, and fields of
the HTTP form."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from plumbline.params.ingest import FORMATS, Format

A_DATE: dict[str, Any] = {"format": "date"}
"""JSON schema of a field that takes a day."""


class PointsOptions(BaseModel):
    """How point products are read, and which of their epochs count."""

    format: Format | None = Field(
        default=None,
        description=f"Read the points as one of {', '.join(FORMATS)}; else the content decides.",
    )
    since: str | None = Field(
        default=None,
        description="Leave out the epochs before this day, as 2022-01-31.",
        json_schema_extra=A_DATE,
    )
    until: str | None = Field(
        default=None,
        description="Leave out the epochs after this day, as 2024-06-30.",
        json_schema_extra=A_DATE,
    )


class ReadingOptions(PointsOptions):
    """How point products and footprints are read."""

    id_column: str | None = Field(
        default=None,
        max_length=200,
        description="Column of the footprints that identifies a building; else building_id.",
    )
    layer: str | None = Field(
        default=None,
        max_length=200,
        description="Layer of the footprints' file, where it has several.",
    )


class JudgingOptions(ReadingOptions):
    """How a city is read and its buildings judged."""

    damage_rate: str = Field(
        default="auto",
        max_length=30,
        description="Share of the buildings that are damaged, as 0.02 for 2 %; auto: estimate it "
        "from all answers.",
    )
    damage_rate_by: Literal["city", "place"] = Field(
        default="place",
        description="city: one estimated share for all buildings; place: where damage gathers, "
        "the neighbours tell a "
        "share.",
    )
    min_quadrant_confidence: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Judge a building where, if it is damaged, its quadrant is right with this "
        "probability at least; "
        "the less probable damage is, the less is asked. 0: judge all. Else as the model's "
        "package says.",
    )
