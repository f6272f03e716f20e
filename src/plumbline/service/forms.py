"""Define the forms with which files are sent."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Form, UploadFile
from pydantic import BaseModel, ConfigDict, Field

from plumbline.fields.restore.field import FORM
from plumbline.params.ingest import Format
from plumbline.serve.report.about import About

Text = Annotated[str | None, Field(max_length=200)]
Day = Annotated[str | None, Field(pattern=r"^\d{4}-\d{2}-\d{2}$", json_schema_extra={"format": "date"})]


class PointsForm(BaseModel):
    """Points, and how they are read; another field is refused."""

    model_config = ConfigDict(extra="forbid")
    points: list[UploadFile] = Field(description="Point products, each one track.")
    params: UploadFile | None = Field(None, description="Section `ingest` as YAML.")
    format: Format | None = None
    layer: Text = None
    since: Day = Field(None, description="Leave out the epochs before this day.")
    until: Day = Field(None, description="Leave out the epochs after this day.")


class BuildingsForm(PointsForm):
    """Points and the footprints of buildings: the form of `tensors`."""

    buildings: list[UploadFile] = Field(description="Footprints; of a Shapefile all parts.")
    id_column: Text = None


class PredictForm(BuildingsForm, About):
    """Form of `predict`; its last fields are the texts of the report's first page."""

    causes: UploadFile | None = Field(None, description="What may have caused damage: one vector file.")
    damage_rate: str = Field("auto", max_length=30, description="A share, as 0.02, or `auto`.")
    damage_rate_by: Literal["city", "place"] = "place"
    min_quadrant_confidence: float | None = Field(None, ge=0, le=1)
    artifact: Literal["pruned", "fp16", "int8"] | None = None
    building: list[str] = Field([], description="`building_id` in the report (PDF); else the first 20 of the list.")


class RestoreForm(PointsForm):
    """Form of `restore`."""

    buildings: list[UploadFile] = Field([], description="Footprints, to read the field off.")
    num_inference_steps: int | None = Field(
        None, ge=1, le=50, description="Without it, as the model was calibrated; so for `samples`."
    )
    samples: int | None = Field(None, ge=2, le=64)
    cell: float = Field(10.0, ge=1, le=1000, description="Side of a cell, m.")
    adapter: list[str] = Field([], description="`NAME` or `NAME=WEIGHT`.")
    bbox: str | None = Field(None, max_length=200, description=f"The part to restore: `{FORM}`, degrees, WGS 84.")


FILES = {"points", "buildings", "params", "causes"}
"""Fields of the forms that hold files."""
AS_FORM: Any = Form(media_type="multipart/form-data")
