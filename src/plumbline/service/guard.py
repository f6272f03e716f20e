"""Guard requests by token, size and free disk; name, count and log them."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.core.console import log, request_id
from plumbline.service.bodies import MB, Body, too_large
from plumbline.service.monitoring import Meters, check_disk
from plumbline.service.problems import Problem
from plumbline.service.settings import Settings

OPEN = ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready", "/", "/docs", "/openapi.json")
"""What needs no token: the probes, the documentation, and the web page, which asks the user for one."""
PREFIX = re.compile(rb"(?:/[\w.~-]+){1,9}")
"""What a proxy may write into `X-Forwarded-Prefix`."""
UPLOADS = ("/v1/predict", "/v1/restore", "/v1/tensors")
"""Paths to which files are sent, each of which becomes a job."""
REQUEST_ID = re.compile(rb"[\w.:/+=-]{1,128}", re.ASCII)
"""Pattern of an `X-Request-Id` that is taken over; another one is replaced."""
JSON_MB = 16
SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)


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
            self._check(path, headers, holder)
            encoding = headers.get(b"content-encoding", b"").decode("latin-1").strip().lower()
            kind = headers.get(b"content-type", b"").decode("latin-1").strip()
            body = Body(receive, self._most(path), encoding, kind)
        except Problem as problem:
            await problem.response()(scope, receive, counted)
        else:
            await self._app(scope, body.receive, counted)
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

    def _check(self, path: str, headers: dict[bytes, bytes], holder: str | None) -> None:
        if self._holders and holder is None and path not in OPEN:
            raise Problem(401, "Send the service's token as `Authorization: Bearer TOKEN`.")
        if path in UPLOADS:
            check_disk(self._settings.folder, 507)
        if int(headers.get(b"content-length", b"0")) > self._most(path):
            raise too_large(self._most(path))

    def _most(self, path: str) -> int:
        limits = self._settings.limits
        if path.startswith("/v2/"):
            return limits.infer_mb * MB
        return limits.upload_mb * MB if path in UPLOADS else JSON_MB * MB
