"""Answer errors as problem details (RFC 9457), without paths, names of other files, or tracebacks."""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args, get_origin

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from plumbline.core.console import log, request_id
from plumbline.core.errors import InputError, refused_by_disk

MEDIA_TYPE = "application/problem+json"
TITLES = {
    400: "The request cannot be read",
    401: "A token is needed",
    404: "Not found",
    405: "This method is not allowed here",
    406: "Not available in this format",
    408: "The request came too slowly",
    409: "Not possible now",
    413: "Too large",
    415: "This encoding is not read",
    422: "The request is not accepted",
    429: "Too many jobs",
    500: "Something went wrong in the service",
    503: "Busy",
    507: "No space left",
}
BUSY_SECONDS = 2
ENCODINGS = "gzip, deflate"
"""Of bodies that are read."""
NO_JOB = "There is no such job. Ended jobs are removed after some hours; send the files again."
MOST_NAMED, MOST_LETTERS = 5, 50
"""Of unknown fields and parameters, in a message."""
NO_FILE = 'text found, a file is needed: `curl -F NAME=@FILE`, or in a part of your own `filename="FILE"`'
WRITTEN_AS = ("base64", "quoted-printable")
"""How parts of a form are no longer written (RFC 7578): nobody would undo it."""
_OPTION = re.compile(r"`?(?<![\w-])--([a-z][a-z-]*[a-z])`?")
_COMMAND = re.compile(r" \(`plumbline [^)]*\)")
_ABSOLUTE = re.compile(r"(?<![\w.])/(?:[\w.\-+@]+/)+")


class Details(BaseModel):
    """Problem details (RFC 9457)."""

    model_config = ConfigDict(extra="allow")
    type: str = "about:blank"
    title: str
    status: int
    detail: str
    error: str = Field(description="The detail again, where clients of the Open Inference Protocol look for it.")
    request_id: str | None = Field(None, description="As in `X-Request-Id`, and in the service's log.")


class Problem(Exception):
    """An error with its HTTP status; the detail is written for the user."""

    def __init__(self, status: int, detail: str, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.retry_after = status, detail, retry_after

    @property
    def content(self) -> dict[str, Any]:
        """Return the body of the response."""
        detail, request = self.detail, request_id.get()
        return {
            "type": "about:blank",
            "title": TITLES.get(self.status, "Refused"),
            "status": self.status,
            "detail": detail,
            "error": detail,
            **({"request_id": request} if request else {}),
        }

    def response(self) -> JSONResponse:
        """Return the HTTP response."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.status == 415:
            headers["Accept-Encoding"] = ENCODINGS
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse(self.content, self.status, headers, MEDIA_TYPE)


def problem_of(error: BaseException) -> Problem:
    """Return the problem that users see for an error; an unexpected one is logged."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, InputError):
        return Problem(422, for_requests(str(error)))
    if refused_by_disk(error) is not None:
        return Problem(507, "The disk of the service is full. Nothing was kept of this request.", 60)
    if isinstance(error, sqlite3.OperationalError):
        return Problem(503, "The list of jobs does not answer. Try again.", BUSY_SECONDS)
    name = request_id.get() or secrets.token_hex(4)
    log.error("error %s: %s", name, type(error).__name__, exc_info=error)
    return Problem(500, f"Error {name}; the service's log says more.")


def for_requests(text: str, folder: Path | None = None) -> str:
    """Return a command's message with file names in place of paths, and form fields in place of options.

    Args:
        text: message. folder: of the job, whose path is left out first.
    """
    if folder is not None:
        text = text.replace(f"{folder}/", "")
    text = _OPTION.sub(lambda option: f"`{option[1].replace('-', '_')}`", _COMMAND.sub("", text))
    return _ABSOLUTE.sub("", text)


def refuse_odd_query(request: Request) -> None:
    """Refuse a parameter of the address that is given twice, or that the operation does not have.

    FastAPI would take the last, and ignore it.

    Raises:
        Problem: names the parameter, and those that are known.
    """
    _refuse_given_twice([name for name, _ in request.query_params.multi_items()], set())
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = [field.alias for field in route.dependant.query_params]
    unknown = [name for name in request.query_params if name not in known]
    if not unknown:
        return
    there = f"Known are {', '.join(known)}" if known else "None is known here"
    of_form = _form_fields(route).keys() & set(unknown)
    advice = "; send it as a field of the form" if of_form else ""
    raise Problem(422, f"Unknown parameter {_with_near(unknown, known)} in the address. {there}{advice}.")


def _form_fields(route: APIRoute) -> dict[str, FieldInfo]:
    """Return the fields of the form of an operation by name, with those of its dependencies; none without a form."""
    form: Any = None if route.body_field is None else route.body_field.field_info.annotation
    return {} if form is None else dict(form.model_fields)


def _refuse_given_twice(names: Iterable[str], several: set[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1 and name not in several:
            raise Problem(422, f"{name[:MOST_LETTERS]!r} is given {times} times, and takes one value.")


def _takes_several(kind: Any) -> bool:
    return any(get_origin(one) is list for one in (kind, *get_args(kind)))


async def refuse_odd_fields(request: Request) -> None:
    """Refuse a form with a field that the operation does not have, or has once; FastAPI would ignore it.

    Raises:
        Problem: names the repeated field; or the unknown ones, for each the known one that looks like it, and all that
            are known.
    """
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = _form_fields(route)
    form = await request.form()
    several = {name for name, field in known.items() if _takes_several(field.annotation)}
    _refuse_given_twice((name for name, _ in form.multi_items()), several)
    for name, value in form.multi_items():
        if isinstance(value, UploadFile) and (how := value.headers.get("content-transfer-encoding", "")) in WRITTEN_AS:
            raise Problem(415, f"`{name[:MOST_LETTERS]}`: Content-Transfer-Encoding {how}. Send the bytes as they are.")
    unknown = [name for name in dict.fromkeys(form) if name not in known]
    if not unknown:
        return
    raise Problem(422, f"Unknown form field {_with_near(unknown, list(known))}. Known are {', '.join(known)}.")


def _with_near(unknown: list[str], known: list[str]) -> str:
    """Name the unknown, for each the known one that looks like it."""
    told = []
    for name in unknown[:MOST_NAMED]:
        name = name[:MOST_LETTERS]
        held = [one for one in known if len(name) > 2 and name in one]  # as `steps`, too short to be a close match
        near = next(iter(held or get_close_matches(name, known, 1)), None)
        told.append(f"{name!r}" + (f" (did you mean {near}?)" if near else ""))
    return ", ".join(told) + (f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else "")


def add_handlers(app: FastAPI) -> None:
    """Answer every error of `app` with problem details."""

    async def told(request: Request, error: Exception) -> JSONResponse:
        return problem_of(error).response()

    async def refused(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        if error.__cause__ is not None and refused_by_disk(error.__cause__) is not None:
            return problem_of(error.__cause__).response()  # FastAPI takes whatever stops a body for a bad request
        detail = (
            error.detail if isinstance(error.detail, str) and error.status_code != 404 else "There is no such page."
        )
        answer = Problem(error.status_code, detail).response()
        answer.headers.update(error.headers or {})
        return answer

    async def misfit(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        parts = []
        if any(tuple(one["loc"]) == ("path", "job") for one in error.errors()):
            return Problem(404, NO_JOB).response()
        for one in error.errors():
            where = ".".join(str(part) for part in one["loc"][1:]) or str(one["loc"][0])
            is_text = "Expected UploadFile" in one["msg"]
            parts.append(f"`{where}`: {NO_FILE if is_text else one['msg']}")
        kind = request.headers.get("content-type", "none").partition(";")[0]
        is_form = any(one["loc"][0] == "body" for one in error.errors()) and not request.url.path.startswith("/v2/")
        if is_form and kind != "multipart/form-data":
            parts.append(f"Content-Type {kind[:MOST_LETTERS]} came: send the files as multipart/form-data")
        return Problem(422, "; ".join(parts)).response()

    app.add_exception_handler(RequestValidationError, misfit)
    app.add_exception_handler(HTTPException, refused)
    for kind in (Problem, InputError, sqlite3.OperationalError, OSError, Exception):
        app.add_exception_handler(kind, told)


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the answers with these statuses for the OpenAPI document."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Details"}}}
    return {status: {"description": TITLES[status], "content": content} for status in statuses}
