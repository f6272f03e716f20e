"""Answer prepared features by the Open Inference Protocol (KServe's V2), as JSON or with binary tensors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import APIRouter
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from plumbline import __version__
from plumbline.core.errors import InputError
from plumbline.service.models import Models, Served
from plumbline.service.monitoring import Meters
from plumbline.service.problems import BUSY_SECONDS, Problem, refusals
from plumbline.service.settings import Limits

JSON_LENGTH = "Inference-Header-Content-Length"
"""Header: bytes of JSON, before those of the binary tensors (Triton's binary tensor data extension)."""
DTYPES = {"FP32": np.dtype("<f4"), "BOOL": np.dtype("?")}
CLASSES = ("classification", "class_count")
"""Parameters of an output that ask for its largest values as texts (Triton's classification extension)."""
KINDS = {"float32": "FP32", "bool": "BOOL"}
LARGEST_SIDE = 1 << 20
MOST_DIMENSIONS = 3
SMALL_BYTES = 32_000
"""Up to this size a request is answered in the event loop: to hand it to a thread takes longer than the answer."""


def infer_routes(models: Models, limits: Limits, meters: Meters) -> APIRouter:
    """Return the routes under `/v2`."""
    router = APIRouter(prefix="/v2", tags=["inference"])
    waiting = 0
    unknown = refusals(404)
    tensors: dict[str, Any] = {
        "responses": {200: {"content": _CONTENT}, **refusals(400, 404, 408, 413, 415, 503)},
        "openapi_extra": {"requestBody": {"required": True, "content": _CONTENT}},
        "response_class": Response,
    }

    def served(name: str, version: str | None = None) -> Served:
        one = models.diagnosis
        if name != one.manifest.name or version not in (None, one.manifest.version):
            raise Problem(404, f"There is no such model; {one.manifest.name} {one.manifest.version} is served.")
        return one

    @router.get("", summary="Describe the server")
    def server() -> dict[str, Any]:
        return {"name": "plumbline", "version": __version__, "extensions": ["binary_tensor_data"]}

    @router.get("/health/live", summary="Tell whether the server lives")
    def live() -> dict[str, bool]:
        return {"live": True}

    @router.get("/health/ready", summary="Tell whether all models can be asked")
    def ready() -> dict[str, bool]:
        return {"ready": True}

    @router.get("/models/{name}", summary="Describe a model's tensors", responses=unknown)
    def metadata(name: str) -> dict[str, Any]:
        return describe(served(name))

    @router.get("/models/{name}/versions/{version}", summary="Describe a version's tensors", responses=unknown)
    def version_metadata(name: str, version: str) -> dict[str, Any]:
        return describe(served(name, version))

    @router.get("/models/{name}/ready", summary="Tell whether a model can be asked", responses=unknown)
    def model_ready(name: str) -> dict[str, Any]:
        return {"name": served(name).manifest.name, "ready": True}

    @router.get(
        "/models/{name}/versions/{version}/ready", summary="Tell whether a version can be asked", responses=unknown
    )
    def version_ready(name: str, version: str) -> dict[str, Any]:
        return {"name": served(name, version).manifest.name, "ready": True}

    async def answered(request: Request, one: Served) -> Response:
        nonlocal waiting
        if waiting >= limits.infer_at_once:
            meters.refused("infer")
            raise Problem(503, f"{waiting} requests are being answered. Try again.", BUSY_SECONDS)
        waiting += 1
        try:
            body = await request.body()
            given = one, body, request.headers.get(JSON_LENGTH), meters
            return answer(*given) if len(body) <= SMALL_BYTES else await run_in_threadpool(answer, *given)
        finally:
            waiting -= 1

    @router.post("/models/{name}/infer", summary="Answer a batch of prepared buildings", **tensors)
    async def infer(request: Request, name: str) -> Response:
        return await answered(request, served(name))

    @router.post("/models/{name}/versions/{version}/infer", summary="Answer a batch by a version", **tensors)
    async def version_infer(request: Request, name: str, version: str) -> Response:
        return await answered(request, served(name, version))

    return router


_CONTENT: dict[str, Any] = {
    "application/json": {"schema": {"type": "object"}},
    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
}


def describe(one: Served) -> dict[str, Any]:
    """Return a model's tensors in the protocol's form; -1 stands for any size."""

    def tensors(given: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {
                "name": tensor["name"],
                "datatype": KINDS[tensor["type"]],
                "shape": [size if isinstance(size, int) else -1 for size in tensor["shape"]],
            }
            for tensor in given
        ]

    about = one.manifest
    return {
        "name": about.name,
        "versions": [about.version],
        "platform": "onnxruntime_onnx",
        "inputs": tensors(about.inputs),
        "outputs": tensors(about.outputs),
    }


def answer(one: Served, body: bytes, json_length: str | None, meters: Meters) -> Response:
    """Answer one request.

    Raises:
        Problem: the request is not of the protocol. InputError: the tensors do not fit the model.
    """
    head, rest = _split(body, json_length)
    asked = _object(head)
    inputs = _inputs(asked, rest)
    try:
        found = one.model.run(inputs)._asdict()
    except InputError as error:
        raise Problem(400, str(error)) from None
    meters.inferred(len(found["severity_permille"]))
    wanted, binary = _outputs(asked, list(found))
    told: dict[str, Any] = {"model_name": one.manifest.name, "model_version": one.manifest.version, "outputs": []}
    if isinstance(asked.get("id"), str):
        told["id"] = asked["id"]
    parts: list[bytes] = []
    for name in wanted:
        values = np.ascontiguousarray(found[name], "<f4")
        tensor: dict[str, Any] = {"name": name, "datatype": "FP32", "shape": list(values.shape)}
        if name in binary:
            parts.append(values.tobytes())
            tensor["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            tensor["data"] = [float(value) if np.isfinite(value) else None for value in values.ravel()]
        told["outputs"].append(tensor)
    if not parts:
        return JSONResponse(told)
    text = json.dumps(told).encode()
    return Response(
        b"".join([text, *parts]), media_type="application/octet-stream", headers={JSON_LENGTH: str(len(text))}
    )


def _split(body: bytes, json_length: str | None) -> tuple[bytes, memoryview]:
    if json_length is None:
        return body, memoryview(b"")
    if not json_length.isdecimal() or int(json_length) > len(body):
        raise Problem(400, f"{JSON_LENGTH}: {json_length[:20]} found; the body has {len(body)} bytes.")
    return body[: int(json_length)], memoryview(body)[int(json_length) :]


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Problem(400, "The body is not readable as JSON.") from None
    if not isinstance(found, dict) or not isinstance(found.get("inputs"), list):
        raise Problem(400, "The body is not an object with a list `inputs`.")
    return found


def _inputs(asked: dict[str, Any], rest: memoryview) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    for number, tensor in enumerate(asked["inputs"]):
        name = tensor.get("name") if isinstance(tensor, dict) else None
        if not isinstance(name, str) or name in found:
            raise Problem(400, f"inputs[{number}]: a name is missing, or comes twice.")
        kind, shape = tensor.get("datatype"), tensor.get("shape")
        if not isinstance(kind, str) or kind not in DTYPES:
            raise Problem(400, f"{name}: datatype is not one of {', '.join(DTYPES)}.")
        whole = isinstance(shape, list) and 0 < len(shape) <= MOST_DIMENSIONS
        if not whole or not all(type(size) is int and 0 <= size <= LARGEST_SIDE for size in shape):
            raise Problem(400, f"{name}: shape is not a list of up to {MOST_DIMENSIONS} sizes.")
        size = _binary_size(tensor)
        if size is None:
            values = _from_json(name, tensor.get("data"), DTYPES[kind])
        else:
            if size > len(rest) or size % DTYPES[kind].itemsize:
                raise Problem(400, f"{name}: binary_data_size {size} found; {len(rest)} bytes are left.")
            values, rest = np.frombuffer(rest[:size], DTYPES[kind]), rest[size:]
            if kind == "BOOL":
                values = values.view(np.uint8) != 0  # any other byte than 0 and 1 is no Boolean to NumPy
        if values.size != int(np.prod(shape, dtype=np.int64)):
            raise Problem(400, f"{name}: {values.size} values found; its shape {shape} needs another number.")
        found[name] = values.reshape(shape)
    if len(rest):
        raise Problem(400, f"{len(rest)} bytes are left behind the binary tensors.")
    return found


def _binary_size(tensor: dict[str, Any]) -> int | None:
    parameters = tensor.get("parameters", {})
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is None:
        return None
    if type(size) is not int or size < 0:
        raise Problem(400, f"{tensor['name']}: binary_data_size is not a number of bytes.")
    return size


def _from_json(name: str, data: Any, kind: np.dtype[Any]) -> NDArray[Any]:
    try:
        values = np.asarray(data)
        if values.dtype == object or values.dtype.kind not in "bif" or (kind.kind == "b") != (values.dtype.kind == "b"):
            raise ValueError
        return values.astype(kind, copy=False).ravel()
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise Problem(
            400, f"{name}: data is not a list of {'true and false' if kind.kind == 'b' else 'numbers'}."
        ) from None


def _outputs(asked: dict[str, Any], known: list[str]) -> tuple[list[str], set[str]]:
    """Return the names of the requested outputs, and which of them to send as binary tensors."""
    parameters = asked.get("parameters")
    everywhere = isinstance(parameters, dict) and parameters.get("binary_data_output") is True
    outputs = asked.get("outputs") or [{"name": name} for name in known]
    wanted, binary = [], set()
    for number, one in enumerate(outputs if isinstance(outputs, list) else [None]):
        name = one.get("name") if isinstance(one, dict) else None
        if name not in known:
            raise Problem(400, f"outputs[{number}]: there is no such output; there are {', '.join(known)}.")
        own = one.get("parameters")
        own = own if isinstance(own, dict) else {}
        if wish := next(filter(own.get, CLASSES), None):
            raise Problem(400, f"{name}: {wish} is not supported. Leave it out, and sort the values yourself.")
        if own.get("binary_data", everywhere):
            binary.add(name)
        wanted.append(name)
    return wanted, binary
