"""Declare the forms with which files are sent, and the tables that come back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_origin

from fastapi import Form, Request, UploadFile
from pydantic import ConfigDict, Field, GetJsonSchemaHandler

from plumbline.fields.restore.field import FORM
from plumbline.fields.restore.footprints import FIGURES
from plumbline.params import JudgingOptions, PointsOptions, ReadingOptions
from plumbline.serve.columns import json_schema
from plumbline.serve.report.about import ReportTexts
from plumbline.service.problems import Problem


class SentFile(UploadFile):
    """A file of a form."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: Mapping[str, Any], handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return FastAPI's schema with `format: binary`: makers of clients pass
        `contentMediaType` by."""
        return super().__get_pydantic_json_schema__(core_schema, handler) | {"format": "binary"}


class PointsForm(PointsOptions):
    """Points, and how they are read; another field is refused."""

    model_config = ConfigDict(extra="forbid")
    points: list[SentFile] = Field(description="Point products, each one track.")
    params: SentFile | None = Field(None, description="Section `ingest` as YAML.")


class BuildingsForm(PointsForm, ReadingOptions):
    """Points and the footprints of buildings: the form of `tensors`."""

    buildings: list[SentFile] = Field(description="Footprints; of a Shapefile all parts.")


class PredictForm(BuildingsForm, JudgingOptions, ReportTexts):
    """Form of `predict`; its last fields are the texts of the report's first page."""

    causes: SentFile | None = Field(
        None, description="What may have caused damage: one vector file."
    )
    artifact: Literal["pruned", "fp16", "int8"] | None = None
    building: list[str] = Field(
        [], description="`building_id` in the report (PDF); else the first 20 of the list."
    )


class RestoreForm(PointsForm):
    """Form of `restore`."""

    buildings: list[SentFile] = Field([], description="Footprints, to read the field off.")
    layer: str | None = Field(
        None, max_length=200, description="Layer of the footprints' file, where it has several."
    )
    num_inference_steps: int | None = Field(
        None, ge=1, le=50, description="Without it, as the model was calibrated; so for `samples`."
    )
    samples: int | None = Field(None, ge=2, le=64)
    cell: float = Field(10.0, ge=1, le=1000, description="Side of a cell, m.")
    adapter: list[str] = Field([], description="`NAME` or `NAME=WEIGHT`.")
    bbox: str | None = Field(
        None, max_length=200, description=f"The part to restore: `{FORM}`, degrees, WGS 84."
    )


LISTS = {
    name
    for form in (PredictForm, RestoreForm)
    for name, field in form.model_fields.items()
    if get_origin(field.annotation) is list
}
"""Fields that may come several times."""


async def refuse_repeated(request: Request) -> None:
    """Refuse a form with two values of a field that has one; FastAPI would take the last.

    Raises:
        Problem: names the field.
    """
    if request.headers.get("content-type", "").lower().startswith("multipart/"):
        form = await request.form()  # read already
        for name in form:
            if name not in LISTS and len(form.getlist(name)) > 1:
                raise Problem(
                    422,
                    f"The field {name[:50]!r} is in the form twice. Give it once.",
                    key="request.repeated_field",
                )


FILES = {"points", "buildings", "params", "causes"}
"""Fields of the forms that hold files."""
AS_FORM: Any = Form(media_type="multipart/form-data")

BUILDING, RESTORED = "Building", "RestoredBuilding"
"""Names of the schemas of a building in the tables of `predict` and of `restore`."""


def table_schemas() -> dict[str, Any]:
    """Return the schemas of a building's properties in GeoJSON by name."""
    judged = json_schema()
    figures = {
        f"{name}{end}": {"type": ["number", "null"], "x-unit": "mm"}
        for name in FIGURES
        for end in ("", "_low", "_high")
    }
    restored = {
        "building_id": {"type": "string"},
        "restored": {"type": "boolean", "description": "True if the footprint has figures."},
        "direction": {
            "enum": ["up", "los", None],
            "description": "Up; or towards the satellite, where one direction alone sees the "
            "footprint.",
        },
        **figures,
    }
    return {
        BUILDING: judged | {"required": list(judged["properties"])},
        RESTORED: {
            "type": "object",
            "description": "Columns of the table of `restore`, beside those of the footprints' "
            "file.",
            "properties": restored,
            "required": list(restored),
        },
    }


def geojson_schema(name: str) -> dict[str, Any]:
    """Return the schema of a table as GeoJSON; properties of its features have the schema
    of this name."""
    feature = {
        "type": {"const": "Feature"},
        "geometry": {"type": "object"},
        "properties": {"$ref": f"#/components/schemas/{name}"},
    }
    features = {"type": "array", "items": {"type": "object", "properties": feature}}
    return {
        "type": "object",
        "description": f"Table of buildings, each as `{name}`.",
        "properties": {"type": {"const": "FeatureCollection"}, "features": features},
    }
