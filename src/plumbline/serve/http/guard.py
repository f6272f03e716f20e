"""Check token and body size of every request before it is read, and count requests."""

from __future__ import annotations

import asyncio
import hmac
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.serve.http.monitoring import Meters
from plumbline.serve.http.problems import Problem, problem_of
from plumbline.serve.http.settings import Settings

OPEN = ("/healthz", "/readyz", "/", "/assets")
"""What needs no token: the probes, and the web page, which asks the user for one."""
MB = 1_000_000
JSON_MB = 16
SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)


SILENT_SECONDS = 60.0
"""That a client may let pass within a request without sending a byte of it."""


class _Refused(Exception):
    """Stops the reading of the body."""


class Guard:
    """An ASGI layer around the application."""

    def __init__(self, app: ASGIApp, settings: Settings, meters: Meters) -> None:
        self._app, self._settings, self._meters = app, settings, meters
        secret = settings.token.get_secret_value() if settings.token else ""
        self._token = f"Bearer {secret}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        headers = dict(scope["headers"])

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *SAFE_HEADERS]
            await send(message)

        problem = self._refusal(scope["path"], headers)
        if problem is not None:
            await problem.response()(scope, receive, counted)
        else:
            await self._bounded(scope, receive, counted, self._most(scope["path"]))
        route = getattr(scope.get("route"), "path", "other")
        self._meters.count(scope["method"], route, status, time.perf_counter() - began)

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> Problem | None:
        needs = self._settings.token is not None and path not in OPEN and not path.startswith("/assets/")
        if needs and not hmac.compare_digest(headers.get(b"authorization", b""), self._token):
            return Problem(401, "Send the service's token as `Authorization: Bearer TOKEN`.")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            return Problem(400, "Content-Length is not a number.")
        most = self._most(path)
        return self._too_large(most) if int(length) > most else None

    def _most(self, path: str) -> int:
        limits = self._settings.limits
        if path.startswith("/v2/"):
            return limits.infer_mb * MB
        return limits.upload_mb * MB if path in ("/v1/predict", "/v1/restore") else JSON_MB * MB

    def _too_large(self, most: int) -> Problem:
        return Problem(413, f"The request has more than {most // MB} MB, the most that this service takes here.")

    async def _bounded(self, scope: Scope, receive: Receive, send: Send, most: int) -> None:
        """Limit the body by counting its bytes, since a length may be wrong, and limit the wait for them."""
        came, begun, whole = 0, False, False
        refused: Problem | None = None

        async def bounded() -> Message:
            nonlocal came, whole, refused
            if whole:  # there is only the client's leaving to wait for
                return await receive()
            try:
                async with asyncio.timeout(SILENT_SECONDS):
                    message = await receive()
            except TimeoutError:
                refused = Problem(408, f"Nothing came for {SILENT_SECONDS:g} seconds. Send the request again.")
                raise _Refused from None
            whole = not message.get("more_body", False)
            came += len(message.get("body", b""))
            if came > most:
                refused = self._too_large(most)
                raise _Refused
            return message

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
