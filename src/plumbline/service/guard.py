"""Guard requests by token, size and free disk; name, count and log them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import AsyncIterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.core.console import log, request_id
from plumbline.service.bodies import Unpacking, encoding_of, end_of, ended
from plumbline.service.monitoring import Meters, check_disk
from plumbline.service.problems import Problem, problem_of
from plumbline.service.settings import Settings

OPEN = ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready", "/", "/docs", "/openapi.json")
"""What needs no token: the probes, the documentation, and the web page, which asks the user for one."""
PREFIX = re.compile(rb"(?:/[\w.~-]+){1,9}")
"""What a proxy may write into `X-Forwarded-Prefix`."""
UPLOADS = ("/v1/predict", "/v1/restore", "/v1/tensors")
"""Paths to which files are sent, each of which becomes a job."""
REQUEST_ID = re.compile(rb"[\w.:/+=-]{1,128}", re.ASCII)
"""Pattern of an `X-Request-Id` that is taken over; another one is replaced."""
MB = 1_000_000
JSON_MB = 16
SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)


SILENT_SECONDS = 60.0
"""That a client may let pass within a request without sending a byte of it."""


def _below(path: str, headers: dict[bytes, bytes]) -> tuple[str, str]:
    """Return the prefix under which a proxy shows the service, and the path without it, if the proxy left it on."""
    given = headers.get(b"x-forwarded-prefix", b"").rstrip(b"/")
    prefix = given.decode() if PREFIX.fullmatch(given) else ""
    return prefix, path.removeprefix(prefix) if path.startswith(f"{prefix}/") else path


def _name_request(headers: dict[bytes, bytes]) -> str:
    """Return the name that the client or a proxy gave to a request, or a new one."""
    sent = headers.get(b"x-request-id", b"")
    return sent.decode() if REQUEST_ID.fullmatch(sent) else secrets.token_hex(16)


class Guard:
    """An ASGI layer around the application."""

    def __init__(self, app: ASGIApp, settings: Settings, meters: Meters) -> None:
        self._app, self._settings, self._meters = app, settings, meters
        secrets = [token.get_secret_value().encode() for token in settings.tokens]
        self._holders = [(b"Bearer " + secret, hashlib.sha256(secret).hexdigest()) for secret in secrets]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        headers = dict(scope["headers"])
        request = _name_request(headers)
        request_id.set(request)
        (prefix, path), holder = _below(scope["path"], headers), self._holder(headers)
        state = {**scope.get("state", {}), "holder": holder}
        scope = {**scope, "root_path": prefix, "path": prefix + path, "state": state}

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                named = (b"x-request-id", request.encode())
                message["headers"] = [*message.get("headers", []), *SAFE_HEADERS, named]
            await send(message)

        try:
            tokens = sum(name == b"authorization" for name, _ in scope["headers"])
            self._check(path, headers, holder, tokens)
            encoding = encoding_of(scope["headers"])
        except Problem as problem:
            await problem.response()(scope, receive, counted)
        else:
            if encoding is not None:  # the length is that of the packed body
                left = [pair for pair in scope["headers"] if pair[0] not in (b"content-encoding", b"content-length")]
                scope = {**scope, "headers": left}
            await self._bounded(scope, receive, counted, self._most(path), encoding)
        route = getattr(scope.get("route"), "path", "other")
        seconds = time.perf_counter() - began
        self._meters.count(scope["method"], route, status, seconds)
        if self._settings.log_format == "json":
            fields = {"method": scope["method"], "path": path, "status": status}
            fields["seconds"] = round(seconds, 6)
            log.info("%s %s %d", scope["method"], path, status, extra={"fields": fields})

    def _holder(self, headers: dict[bytes, bytes]) -> str | None:
        """Return the fingerprint of the token that a request brings; None if it brings none that is known."""
        sent = headers.get(b"authorization", b"")
        return next((holder for known, holder in self._holders if hmac.compare_digest(sent, known)), None)

    def _check(self, path: str, headers: dict[bytes, bytes], holder: str | None, tokens: int) -> None:
        if tokens > 1:  # a proxy before the service may go by another one than the service
            raise Problem(400, f"Authorization is given {tokens} times, and takes one value.")
        if self._holders and holder is None and path not in OPEN:
            raise Problem(401, "Send the service's token as `Authorization: Bearer TOKEN`.")
        if path in UPLOADS:
            check_disk(self._settings.folder, 507)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            raise Problem(400, "Content-Length is not a number.")
        most = self._most(path)
        if int(length) > most:
            raise self._too_large(most)

    def _most(self, path: str) -> int:
        limits = self._settings.limits
        if path.startswith("/v2/"):
            return limits.infer_mb * MB
        return limits.upload_mb * MB if path in UPLOADS else JSON_MB * MB

    def _too_large(self, most: int, has: str = "has") -> Problem:
        return Problem(413, f"The request {has} more than {most // MB} MB, the most that this service takes here.")

    async def _bounded(
        self, scope: Scope, receive: Receive, send: Send, most: int, encoding: str | None = None
    ) -> None:
        """Limit the body by counting its bytes, since a length may be wrong, and limit the wait for them."""
        begun = False
        refused: Problem | None = None
        coming = self._unpacked(receive, most, encoding) if encoding else self._counted(receive, most)
        if (end := end_of(scope["headers"])) is not None:
            coming = ended(coming, end)

        async def bounded() -> Message:
            nonlocal refused
            try:
                message = await anext(coming, None)
            except Problem as problem:
                refused = problem
                raise
            return message or await receive()  # there is only the client's leaving to wait for

        async def noted(message: Message) -> None:
            nonlocal begun
            if refused is None or begun:  # else the application tells of a body that it could not read
                begun = True
                await send(message)

        try:
            await self._app(scope, bounded, noted)
        except Exception as error:
            if begun:
                raise
            refused = refused or problem_of(error)
        if refused is not None and not begun:
            await refused.response()(scope, receive, send)

    async def _counted(self, receive: Receive, most: int) -> AsyncIterator[Message]:
        """Yield the messages of a body.

        Raises:
            Problem: it is larger than `most` bytes, or does not go on.
        """
        came, more = 0, True
        while more:
            try:
                async with asyncio.timeout(SILENT_SECONDS):
                    message = await receive()
            except TimeoutError:
                raise Problem(408, f"Nothing came for {SILENT_SECONDS:g} seconds. Send the request again.") from None
            more = message.get("more_body", False)
            came += len(message.get("body", b""))
            if came > most:
                raise self._too_large(most)
            yield message

    async def _unpacked(self, receive: Receive, most: int, encoding: str) -> AsyncIterator[Message]:
        """Yield the messages of a packed body unpacked, as `_counted` does."""
        came, unpacking = 0, Unpacking(encoding)
        async for message in self._counted(receive, most):
            if message["type"] != "http.request":
                yield message
                return
            for piece in unpacking.pieces(message.get("body", b""), not message.get("more_body", False)):
                came += len(piece)
                if came > most:
                    raise self._too_large(most, "unpacks to")
                yield {"type": "http.request", "body": piece, "more_body": True}
                await asyncio.sleep(0)  # others are answered meanwhile
        yield {"type": "http.request", "body": b"", "more_body": False}
