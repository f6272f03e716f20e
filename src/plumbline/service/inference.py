"""Prepare buildings for the network, and answer the Open Inference Protocol (KServe's V2)."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

import geopandas
import numpy as np
from fastapi import APIRouter
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from plumbline import __version__
from plumbline.core.errors import InputError
from plumbline.export.interface import MASK, SEQUENCES
from plumbline.export.package import Manifest
from plumbline.prepare.abstention import JUDGED, REASONS
from plumbline.prepare.buildings import Prepared
from plumbline.service.models import Models, ServedModel
from plumbline.service.monitoring import Meters
from plumbline.service.problems import BUSY_SECONDS, Problem, in_words, refusals
from plumbline.service.settings import ServiceLimits

JSON_LENGTH = "Inference-Header-Content-Length"
"""Header: bytes of JSON before the binary tensors (Triton's binary tensor data extension)."""
DTYPES = {"FP32": np.dtype("<f4"), "BOOL": np.dtype("?")}
KINDS = {"float32": "FP32", "bool": "BOOL"}
NOT_FINITE = "not_finite"
"""Reason for leaving out a building one of whose features is no finite number; the network
would answer NaN."""
SILENT_SECONDS = 60
"""Longest time that the body of a request may take."""
SMALL_BYTES = 32_000
"""Largest request that is answered in the event loop, where a thread would take longer."""


class InputParameters(BaseModel):
    """Parameters of an input."""

    binary_data_size: Annotated[int, Field(ge=0, strict=True)] | None = None


class InferInput(BaseModel):
    """One input of a request."""

    name: str
    datatype: Literal["FP32", "BOOL"]
    shape: Annotated[
        list[Annotated[int, Field(ge=0, le=1 << 20)]], Field(min_length=1, max_length=3)
    ]
    parameters: InputParameters | None = None
    data: list[Any] = []


class OutputParameters(BaseModel):
    """Parameters of an output; Triton's classification extension is not supported."""

    binary_data: bool | None = None
    classification: None = None
    class_count: None = None


class InferOutput(BaseModel):
    """One output that is asked for."""

    name: str
    parameters: OutputParameters | None = None


class RequestParameters(BaseModel):
    """Parameters of a request."""

    binary_data_output: bool = False


class InferRequest(BaseModel):
    """A request for inference."""

    id: str | None = None
    parameters: RequestParameters | None = None
    inputs: list[InferInput]
    outputs: list[InferOutput] | None = None


class Tensor(BaseModel):
    """One input of the network."""

    name: str
    datatype: Literal["FP32", "BOOL"]
    shape: list[int]
    data: list[float] | list[bool] = Field(
        description="All values, the last dimension running fastest."
    )


class TensorColumn(BaseModel):
    """One column of an input."""

    name: str
    unit: str


class Tensors(BaseModel):
    """Inputs of the network for B buildings; as it is, the body of `POST
    /v2/models/{model_name}/infer`."""

    model_name: str
    model_version: str = Field(
        description="Version of the package for which the buildings were prepared."
    )
    inputs: list[Tensor]
    building_id: list[str] = Field(description="Building of each row of the inputs.")
    hides_damage: list[bool] = Field(
        description="Input of this name of `predictions.onnx`, for each row."
    )
    columns: dict[str, list[TensorColumn]] = Field(description="Columns of each input, in order.")
    left_out: dict[str, str] = Field(
        description="`building_id` of each other footprint, and why it has no row."
    )


def infer_routes(models: Models, limits: ServiceLimits, meters: Meters) -> APIRouter:
    """Return the routes under `/v2`."""
    router = APIRouter(prefix="/v2", tags=["inference"])
    waiting = 0
    unknown = refusals(404)
    tensors: dict[str, Any] = {
        "responses": {200: {"content": _CONTENT}, **refusals(400, 404, 413, 415, 503)},
        "openapi_extra": {"requestBody": {"required": True, "content": _CONTENT}},
        "response_class": Response,
    }

    def served(name: str, version: str | None = None) -> ServedModel:
        about = models.diagnosis.manifest
        if name != about.name or version not in (None, about.version):
            raise Problem(
                404,
                f"There is no such model; {about.name} {about.version} is served.",
                key="model.unknown",
            )
        return models.diagnosis

    @router.get("", summary="Describe the server")
    def server() -> dict[str, Any]:
        return {"name": "plumbline", "version": __version__, "extensions": ["binary_tensor_data"]}

    @router.get("/health/live", summary="Tell whether the server lives")
    def live() -> dict[str, bool]:
        return {"live": True}

    @router.get("/health/ready", summary="Tell whether all models can be asked")
    def ready() -> dict[str, bool]:
        return {"ready": True}

    @router.get("/models/{name}/versions/{version}", include_in_schema=False)
    @router.get("/models/{name}", summary="Describe a model's tensors", responses=unknown)
    def metadata(name: str, version: str | None = None) -> dict[str, Any]:
        return describe(served(name, version).manifest)

    @router.get("/models/{name}/versions/{version}/ready", include_in_schema=False)
    @router.get(
        "/models/{name}/ready", summary="Tell whether a model can be asked", responses=unknown
    )
    def model_ready(name: str, version: str | None = None) -> dict[str, Any]:
        return {"name": served(name, version).manifest.name, "ready": True}

    @router.post(
        "/models/{name}/versions/{version}/infer", include_in_schema=False, response_class=Response
    )
    @router.post("/models/{name}/infer", summary="Answer a batch of prepared buildings", **tensors)
    async def infer(request: Request, name: str, version: str | None = None) -> Response:
        nonlocal waiting
        model = served(name, version)
        if waiting >= limits.infer_at_once:
            meters.refused.labels("infer").inc()
            raise Problem(
                503,
                f"{waiting} requests are being answered. Try again.",
                BUSY_SECONDS,
                "service.busy",
            )
        waiting += 1
        try:
            async with asyncio.timeout(SILENT_SECONDS):  # clients that send nothing block others
                body = await request.body()
            arguments = model, body, request.headers.get(JSON_LENGTH), meters
            return (
                answer(*arguments)
                if len(body) <= SMALL_BYTES
                else await run_in_threadpool(answer, *arguments)
            )
        except TimeoutError:
            raise Problem(
                408,
                f"The request was not complete within {SILENT_SECONDS} s.",
                key="request.too_slow",
            ) from None
        finally:
            waiting -= 1

    return router


_CONTENT: dict[str, Any] = {
    "application/json": {"schema": {"type": "object"}},
    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
}


def describe(manifest: Manifest) -> dict[str, Any]:
    """Return a model's tensors in the protocol's form, with -1 for any size."""
    inputs, outputs = (
        [
            {
                "name": tensor["name"],
                "datatype": KINDS[tensor["type"]],
                "shape": [size if isinstance(size, int) else -1 for size in tensor["shape"]],
            }
            for tensor in tensors
        ]
        for tensors in (manifest.inputs, manifest.outputs)
    )
    names = {"name": manifest.name, "versions": [manifest.version], "platform": "onnxruntime_onnx"}
    return {**names, "inputs": inputs, "outputs": outputs}


def answer(served: ServedModel, body: bytes, json_length: str | None, meters: Meters) -> Response:
    """Answer one request.

    Raises:
        Problem: the request is not of the protocol, or its tensors do not fit the model.
    """
    head, binary = _split(body, json_length)
    try:
        request = InferRequest.model_validate_json(head)
        answers = served.model.run(_read_tensors(request.inputs, binary))._asdict()
    except ValidationError as error:
        raise Problem(400, in_words(error.errors()), key="request.invalid") from None
    except InputError as error:
        raise Problem(400, str(error), key=error.key) from None
    meters.inferred.observe(len(answers["severity_permille"]))
    about = {"model_name": served.manifest.name, "model_version": served.manifest.version}
    if request.id is not None:
        about["id"] = request.id
    outputs: list[dict[str, Any]] = []
    parts: list[bytes] = []
    for output in request.outputs or [InferOutput(name=name) for name in answers]:
        if output.name not in answers:
            raise Problem(
                400,
                f"outputs: there is no {output.name[:50]!r}; there are {', '.join(answers)}.",
                key="tensor.unknown_output",
            )
        values = np.ascontiguousarray(answers[output.name], "<f4")
        tensor: dict[str, Any] = {
            "name": output.name,
            "datatype": "FP32",
            "shape": list(values.shape),
        }
        is_binary = output.parameters and output.parameters.binary_data
        if (
            (request.parameters and request.parameters.binary_data_output)
            if is_binary is None
            else is_binary
        ):
            parts.append(values.tobytes())
            tensor["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            tensor["data"] = [
                float(value) if np.isfinite(value) else None for value in values.ravel()
            ]
        outputs.append(tensor)
    if not parts:
        return JSONResponse({**about, "outputs": outputs})
    text = json.dumps({**about, "outputs": outputs}).encode()
    return Response(
        b"".join([text, *parts]),
        media_type="application/octet-stream",
        headers={JSON_LENGTH: str(len(text))},
    )


def make_tensors(
    prepared: Prepared, footprints: geopandas.GeoDataFrame, about: Manifest
) -> Tensors:
    """Return the network's inputs for the buildings of a city that can be prepared, in one
    padded batch.

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
        tensors.append(
            Tensor(name=name, datatype=datatype, shape=list(rows.shape), data=rows.ravel().tolist())
        )
    footprint_B = prepared.footprint[is_finite_B]
    return Tensors(
        model_name=about.name,
        model_version=about.version,
        inputs=tensors,
        building_id=names[footprint_B].tolist(),
        hides_damage=prepared.whole.hides_damage[footprint_B].tolist(),
        columns={
            tensor["name"]: tensor["columns"] for tensor in about.inputs if "columns" in tensor
        },
        left_out=left_out,
    )


def _split(body: bytes, json_length: str | None) -> tuple[bytes, memoryview]:
    """Return the JSON of a body and the binary tensors behind it."""
    if json_length is None:
        return body, memoryview(b"")
    if not json_length.isdecimal() or int(json_length) > len(body):
        raise Problem(
            400,
            f"{JSON_LENGTH}: {json_length[:20]} found; the body has {len(body)} bytes.",
            key="tensor.json_length",
        )
    return body[: int(json_length)], memoryview(body)[int(json_length) :]


def _read_tensors(tensors: list[InferInput], binary: memoryview) -> dict[str, NDArray[Any]]:
    """Return the tensors of a request by name; `binary` has the values of those without `data`."""
    arrays: dict[str, NDArray[Any]] = {}
    for tensor in tensors:
        name, kind = tensor.name, DTYPES[tensor.datatype]
        size = None if tensor.parameters is None else tensor.parameters.binary_data_size
        if name in arrays:
            raise Problem(400, f"{name[:50]!r}: comes twice.", key="tensor.repeated")
        try:
            if size is None:
                values = np.asarray(tensor.data)
                if values.dtype.kind not in ("b" if kind.kind == "b" else "if"):
                    raise ValueError("other values than its datatype's")
            else:
                if size > len(binary):
                    raise ValueError(f"{len(binary)} of its {size} bytes came")
                values = np.frombuffer(binary[:size], kind)
                binary = binary[size:]
                if kind.kind == "b":
                    values = values.view(np.uint8) != 0  # NumPy needs 0 or 1 in a Boolean
            arrays[name] = values.astype(kind, copy=False).reshape(tensor.shape)
        except ValueError as error:
            raise Problem(
                400,
                f"{name[:50]!r}: its data does not fit its datatype and shape ({error}).",
                key="tensor.wrong_data",
            ) from None
    if len(binary):
        raise Problem(
            400,
            f"{len(binary)} bytes are left behind the binary tensors.",
            key="tensor.surplus_bytes",
        )
    return arrays
