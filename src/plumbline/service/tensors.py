"""Give the inputs of the network as the body of a request for inference (Open Inference Protocol)."""

from __future__ import annotations

from typing import Literal

import geopandas
import numpy as np
from pydantic import BaseModel, Field

from plumbline.export.interface import MASK, SEQUENCES
from plumbline.export.package import Manifest
from plumbline.prepare.abstention import JUDGED, REASONS
from plumbline.prepare.buildings import Prepared

NOT_FINITE = "not_finite"
"""Reason for leaving out a building one of whose features is no finite number; the network would answer NaN."""


class Tensor(BaseModel):
    """One input of the network."""

    name: str
    datatype: Literal["FP32", "BOOL"]
    shape: list[int]
    data: list[float] | list[bool] = Field(description="All values, the last dimension running fastest.")


class TensorColumn(BaseModel):
    """One column of an input."""

    name: str
    unit: str


class Tensors(BaseModel):
    """Inputs of the network for B buildings; as it is, the body of `POST /v2/models/{model_name}/infer`."""

    model_name: str
    model_version: str = Field(description="Version of the package for which the buildings were prepared.")
    inputs: list[Tensor]
    building_id: list[str] = Field(description="Building of each row of the inputs.")
    hides_damage: list[bool] = Field(description="Input of this name of `predictions.onnx`, for each row.")
    columns: dict[str, list[TensorColumn]] = Field(description="Columns of each input, in order.")
    left_out: dict[str, str] = Field(description="`building_id` of each other footprint, and why it has no row.")


def make_tensors(prepared: Prepared, footprints: geopandas.GeoDataFrame, about: Manifest) -> Tensors:
    """Return the network's inputs for the buildings of a city that can be prepared, in one padded batch.

    Args:
        prepared: outcome of `prepare_buildings` with `about.prepare`.
        footprints: (F) the buildings table.
        about: manifest of the package.
    """
    names = footprints["building_id"].to_numpy().astype(str)
    inputs = prepared.sequences.pad(np.arange(len(prepared.sequences)))
    is_finite_B = np.isfinite(inputs["geometry"]).all(axis=1)
    for name in SEQUENCES:
        is_finite_B &= np.isfinite(inputs[name]).all(axis=(1, 2))
    codes = prepared.left_out.code
    reasons = list(REASONS)
    left_out = {names[row]: reasons[codes[row] - 1] for row in np.flatnonzero(codes != JUDGED)}
    left_out |= dict.fromkeys(names[prepared.footprint[~is_finite_B]], NOT_FINITE)
    tensors = []
    for name, values in inputs.items():
        rows = values[is_finite_B]
        datatype: Literal["FP32", "BOOL"] = "BOOL" if name == MASK else "FP32"
        tensors.append(Tensor(name=name, datatype=datatype, shape=list(rows.shape), data=rows.ravel().tolist()))
    footprint_B = prepared.footprint[is_finite_B]
    return Tensors(
        model_name=about.name,
        model_version=about.version,
        inputs=tensors,
        building_id=names[footprint_B].tolist(),
        hides_damage=prepared.whole.hides_damage[footprint_B].tolist(),
        columns={item["name"]: item["columns"] for item in about.inputs if "columns" in item},
        left_out=left_out,
    )
