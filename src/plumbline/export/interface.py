"""Describe inputs and outputs of a released model, for the package's manifest and every ONNX file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from plumbline.core.compass import QUADRANTS
from plumbline.core.errors import InputError
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, LEVEL_EDGES_PERMILLE, MECHANISMS
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, Column

NAME = "plumbline"
WORDS = ("name", "version")
"""What is plain text in an ONNX file's properties; the rest is JSON."""

MASK_MEANING = (
    "true where there is a scatterer: in the first places of a row, where they stand in order along the building's "
    "longer side; elsewhere distance and slope may hold any finite number"
)


class About(BaseModel):
    """Metadata of an ONNX file, under these keys; the last four fields are as in the manifest."""

    model_config = ConfigDict(extra="ignore")  # a later version may say more
    name: str
    version: str
    """Of Plumbline."""
    preparation: int = Field(ge=1)
    """`features.PREPARATION` of the points that the model was trained on."""
    max_length: int = Field(ge=1)
    """Scatterers a building at most."""
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    quadrants: list[str]
    category_bounds_permille: list[float]
    category_share: list[float] = Field(min_length=5, max_length=5)
    """Of the buildings that the model was calibrated on: what its probabilities of categories stand for."""


def interface() -> dict[str, Any]:
    """Return inputs and outputs with shapes, units and order."""

    def columns(parts: tuple[Column, ...]) -> list[dict[str, str]]:
        return [{"name": column.name, "unit": column.unit} for column in parts]

    def tensor(name: str, kind: str, *shape: str | int, **about: Any) -> dict[str, Any]:
        return {"name": name, "type": kind, "shape": list(shape), **about}

    return {
        "inputs": [
            tensor("distance", "float32", "batch", "length", len(DISTANCE), columns=columns(DISTANCE)),
            tensor("slope", "float32", "batch", "length", len(SLOPE), columns=columns(SLOPE)),
            tensor("geometry", "float32", "batch", len(GEOMETRY), columns=columns(GEOMETRY)),
            tensor("mask", "bool", "batch", "length", meaning=MASK_MEANING),
        ],
        "outputs": [
            tensor("quadrant_probability", "float32", "batch", 4, unit="1", order=list(QUADRANTS)),
            tensor("severity_permille", "float32", "batch", unit="permille of tensile strain"),
            tensor("severity_low", "float32", "batch", unit="permille; 0 where there may be no damage"),
            tensor("severity_high", "float32", "batch", unit="permille; 90 % of true values lie between both"),
            tensor("novelty", "float32", "batch", unit="1; above 1: unlike the training data"),
            tensor(
                "accepted_probability",
                *("float32", "batch", 4),
                unit="1; if damaged, that a quadrant has 0.9 of the building's strain at least",
                order=list(QUADRANTS),
            ),
            tensor("category_probability", "float32", "batch", 5, unit="1; at category_share", order=list(range(5))),
            tensor(
                "level_probability",
                *("float32", "batch", len(LEVEL_EDGES_PERMILLE) + 1),
                unit="1; the same in finer levels",
                lower_bounds_permille=[0.0, *LEVEL_EDGES_PERMILLE],
            ),
            tensor(
                "mechanism_probability",
                *("float32", "batch", len(MECHANISMS)),
                unit="1; if damaged",
                order=list(MECHANISMS),
            ),
        ],
        "quadrants": list(QUADRANTS),
        "category_bounds_permille": list(CATEGORY_BOUNDS_PERMILLE),
    }


def same_inputs(found: list[dict[str, Any]]) -> bool:
    """Return whether tensors and columns are those of this version, whatever their descriptions."""

    def bare(inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{key: value for key, value in item.items() if key != "meaning"} for item in inputs]

    return bare(found) == bare(interface()["inputs"])


def properties(max_length: int, preparation: int, category_share: list[float]) -> dict[str, str]:
    """Return the metadata of an ONNX file as `metadata_props`: text, or JSON for more than a word."""
    about = About(
        name=NAME,
        version=_version(),
        preparation=preparation,
        max_length=max_length,
        category_share=category_share,
        **interface(),
    )
    return {key: value if key in WORDS else json.dumps(value) for key, value in about.model_dump().items()}


def read_properties(found: Mapping[str, str], where: str) -> About | None:
    """Read what `properties` made; return None for a file without metadata.

    Raises:
        InputError: there are some, but not those.
    """
    told = {key: text for key, text in found.items() if key in About.model_fields}
    if not told:
        return None
    try:
        return About.model_validate({key: text if key in WORDS else json.loads(text) for key, text in told.items()})
    except ValidationError as error:
        key = error.errors()[0]["loc"][0]
    except json.JSONDecodeError:
        key = "no JSON"
    raise InputError(f"{where}: its metadata are not those of a Plumbline model ({key}). Export it again.")


def _version() -> str:
    try:
        return metadata.version("plumbline")
    except metadata.PackageNotFoundError:  # the sources, on the path of a Python that has the rest
        return "not installed"
