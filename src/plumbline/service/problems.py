"""Answer errors as problem details (RFC 9457), without paths, names of other files, or
tracebacks."""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
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
NO_JOB = "There is no such job. Ended jobs are removed after some hours; send the files again."
NO_FILE = "a file is needed: send a form as multipart/form-data, as `curl -F NAME=@FILE` does"
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
    error: str = Field(
        description="The detail again, where clients of the Open Inference Protocol look for it."
    )
    key: str | None = Field(
        None, description="The check that failed, as `csv.not_a_number`; it outlives wordings."
    )
    request_id: str | None = Field(
        None, description="As in `X-Request-Id`, and in the service's log."
    )


class Problem(HTTPException):
    """An error with its HTTP status; the detail is written for the user."""

    def __init__(
        self, status: int, detail: str, retry_after: int | None = None, key: str = ""
    ) -> None:
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        if status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        super().__init__(status, detail, headers)
        self.key = key

    @property
    def content(self) -> dict[str, Any]:
        """Return the body of the response."""
        request = request_id.get()
        return {
            "type": "about:blank",
            "title": TITLES.get(self.status_code, "Refused"),
            "status": self.status_code,
            "detail": self.detail,
            "error": self.detail,
            **({"key": self.key} if self.key else {}),
            **({"request_id": request} if request else {}),
        }

    def response(self) -> JSONResponse:
        """Return the HTTP response."""
        return JSONResponse(self.content, self.status_code, self.headers, MEDIA_TYPE)


def problem_of(error: BaseException) -> Problem:
    """Return the problem that users see for an error; an unexpected one is logged."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, InputError):
        return Problem(422, for_requests(str(error)), key=error.key)
    if isinstance(error, RequestValidationError):
        if any(tuple(fault["loc"]) == ("path", "job") for fault in error.errors()):
            return Problem(404, NO_JOB, key="job.unknown")
        return Problem(422, in_words(error.errors()), key="request.invalid")
    if (
        refused_by_disk(error.__cause__ or error) is not None
    ):  # FastAPI takes whatever stops a body for a bad request
        return Problem(
            507,
            "The disk of the service is full. Nothing was kept of this request.",
            60,
            "disk.full",
        )
    if isinstance(error, HTTPException):
        problem = Problem(error.status_code, error.detail)
        problem.headers = error.headers
        return problem
    if isinstance(error, sqlite3.OperationalError):
        return Problem(
            503, "The list of jobs does not answer. Try again.", BUSY_SECONDS, "jobs.locked"
        )
    name = request_id.get() or secrets.token_hex(4)
    log.error(
        "error %s: %s",
        *(name, type(error).__name__),
        exc_info=error,
        extra={"key": "service.error"},
    )
    return Problem(500, f"Error {name}; the service's log shows more.", key="service.error")


def in_words(errors: Sequence[Mapping[str, Any]]) -> str:
    """Return what pydantic found wrong, at most three findings."""
    faults = [(".".join(map(str, error["loc"])), error["msg"]) for error in errors[:3]]
    return "; ".join(
        f"`{where}`: {NO_FILE if 'Expected UploadFile' in text else text}" for where, text in faults
    )


def for_requests(text: str, folder: Path | None = None) -> str:
    """Return a command's message with file names in place of paths, and form fields in
    place of options.

    Args:
        text: message. folder: of the job, whose path is left out first.
    """
    if folder is not None:
        text = text.replace(f"{folder}/", "")
    text = _OPTION.sub(lambda option: f"`{option[1].replace('-', '_')}`", _COMMAND.sub("", text))
    return _ABSOLUTE.sub("", text)


def refuse_odd_query(request: Request) -> None:
    """Refuse a parameter of the address that the operation does not have; FastAPI would ignore it.

    Raises:
        Problem: names the parameter.
    """
    names = [field.alias for field in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in names:
            raise Problem(
                422,
                f"Unknown parameter {name[:50]!r} in the address; known: "
                f"{', '.join(names) or 'none'}.",
                key="request.unknown_parameter",
            )
        if len(request.query_params.getlist(name)) > 1:
            raise Problem(
                422,
                f"The parameter {name!r} is in the address twice. Give it once.",
                key="request.repeated_parameter",
            )


def add_handlers(app: FastAPI) -> None:
    """Answer every error of `app` with problem details."""

    async def respond(request: Request, error: Exception) -> JSONResponse:
        return problem_of(error).response()

    for kind in (
        HTTPException,
        RequestValidationError,
        InputError,
        sqlite3.OperationalError,
        OSError,
        Exception,
    ):
        app.add_exception_handler(kind, respond)


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the answers with these statuses for the OpenAPI document."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Details"}}}
    return {status: {"description": TITLES[status], "content": content} for status in statuses}
