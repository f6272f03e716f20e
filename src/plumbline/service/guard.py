"""Guard requests by token, size and free disk; unpack, name, count and log them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
import zlib

from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.core.console import log, request_id
from plumbline.service.monitoring import Meters, check_disk
from plumbline.service.problems import Problem
from plumbline.service.settings import ServiceSettings

MB = 1_000_000
OPEN = ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready", "/", "/docs", "/openapi.json")
"""Paths that need no token: probes, documentation, and the web page, which asks the user for
one."""
PREFIX = re.compile(r"(?:/[\w.~-]+){1,9}", re.ASCII)
"""Pattern of an `X-Forwarded-Prefix` that is accepted from a proxy."""
UPLOADS = ("/v1/predict", "/v1/restore", "/v1/tensors")
"""Paths to which files are sent, each of which becomes a job."""
REQUEST_ID = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)
"""Pattern of an `X-Request-Id` that is used; any other is replaced."""
JSON_MB = 16
SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
PACKED = ("gzip", "deflate")
"""Encodings of bodies that are read."""
PIECE_BYTES = 1 << 18
"""Largest piece that is unpacked at a time."""
END_BYTES = 4096
"""Bytes at the end of a form that contain its closing boundary: 70 letters at most (RFC 2046)."""


class Guard:
    """An ASGI layer around the application."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings, meters: Meters) -> None:
        self._app, self._settings, self._meters = app, settings, meters
        secrets = [token.get_secret_value().encode() for token in settings.tokens]
        self._holders = [
            (b"Bearer " + secret, hashlib.sha256(secret).hexdigest()) for secret in secrets
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, headers = time.perf_counter(), 500, Headers(scope=scope)
        sent_name = headers.get("x-request-id", "")
        request = sent_name if REQUEST_ID.fullmatch(sent_name) else secrets.token_hex(16)
        request_id.set(request)
        (prefix, path), holder = _split_prefix(scope["path"], headers), self._holder(headers)
        state = {**scope.get("state", {}), "holder": holder}
        scope = {**scope, "root_path": prefix, "path": prefix + path, "state": state}

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                named = (b"x-request-id", request.encode())
                message["headers"] = [*message.get("headers", []), *SAFE_HEADERS, named]
            await send(message)

        try:
            self._check(path, headers, holder)
            body = Body(receive, self._max_bytes(path), headers)
        except Problem as problem:
            await problem.response()(scope, receive, send_with_headers)
        else:
            await self._app(scope, body.receive, send_with_headers)
        route = getattr(scope.get("route"), "path", "other")
        seconds = time.perf_counter() - began
        self._meters.requests.labels(scope["method"], route, str(status)).inc()
        self._meters.seconds.labels(route).observe(seconds)
        if self._settings.log_format == "json":
            fields = {
                "method": scope["method"],
                "path": path,
                "status": status,
                "seconds": round(seconds, 6),
            }
            log.info("%s %s %d", scope["method"], path, status, extra={"fields": fields})

    def _holder(self, headers: Headers) -> str | None:
        """Return the fingerprint of the token that a request brings; None if it brings none
        that is known."""
        sent = headers.get("authorization", "").encode("latin-1")
        return next(
            (holder for token, holder in self._holders if hmac.compare_digest(sent, token)), None
        )

    def _check(self, path: str, headers: Headers, holder: str | None) -> None:
        if len(headers.getlist("authorization")) > 1:  # a proxy may choose another one of them
            raise Problem(
                400, "Two `Authorization` headers came. Send one.", key="request.two_tokens"
            )
        if self._holders and holder is None and path not in OPEN:
            raise Problem(
                401,
                "Send the service's token as `Authorization: Bearer TOKEN`.",
                key="request.no_token",
            )
        if path in UPLOADS:
            check_disk(self._settings.folder, 507)
        if int(headers.get("content-length", "0")) > self._max_bytes(path):
            raise _too_large(self._max_bytes(path))

    def _max_bytes(self, path: str) -> int:
        limits = self._settings.limits
        if path.startswith("/v2/"):
            return limits.infer_mb * MB
        return limits.upload_mb * MB if path in UPLOADS else JSON_MB * MB


class Body:
    """The body of one request, of which one piece at most is in memory."""

    def __init__(self, receive: Receive, max_bytes: int, headers: Headers) -> None:
        """Read a body with `receive`.

        Args:
            max_bytes: largest size, unpacked, bytes.
            headers: of the request. A form without its closing boundary lacks its last part.

        Raises:
            Problem: 415 for an encoding that is not known.
        """
        encoding = ", ".join(headers.getlist("content-encoding")).strip().lower()
        if encoding not in ("", "identity", *PACKED):
            raise Problem(
                415,
                f"Content-Encoding {encoding[:40]!r} is not known. Known are {', '.join(PACKED)}.",
                key="request.unknown_encoding",
            )
        self._receive, self._max_bytes, self._n_bytes = receive, max_bytes, 0
        # 32: either header.
        self._unpacker = zlib.decompressobj(32 + zlib.MAX_WBITS) if encoding in PACKED else None
        self._has_output = self._is_last = False
        kind, options = parse_options_header(headers.get("content-type"))
        boundary = options.get(b"boundary") if kind.startswith(b"multipart/") else None
        self._closing, self._tail = b"" if boundary is None else b"--" + boundary + b"--", b""

    async def receive(self) -> Message:
        """Return the next message of the body.

        Raises:
            Problem: 413 if the body is too large; 400 if it is not packed as its header
                says, or was cut off.
        """
        unpacker = self._unpacker
        if unpacker is None or unpacker.eof:
            message = await self._receive()
            self._count(message.get("body", b""), not message.get("more_body", False))
            return message
        packed = unpacker.unconsumed_tail
        if not packed and not self._has_output:
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            packed, self._is_last = message.get("body", b""), not message.get("more_body", False)
        try:
            piece = unpacker.decompress(packed, PIECE_BYTES)
        except zlib.error:
            raise Problem(
                400,
                "The body is not packed as in Content-Encoding, or damaged.",
                key="request.damaged",
            ) from None
        self._has_output = len(piece) == PIECE_BYTES  # zlib may have more, without input left
        is_short = self._is_last and not (
            unpacker.eof or self._has_output or unpacker.unconsumed_tail
        )
        if is_short or unpacker.unused_data:
            raise Problem(
                400,
                "The body was cut off, or goes on behind the end of what is packed.",
                key="request.packed_end",
            )
        self._count(piece, unpacker.eof)
        await asyncio.sleep(0)  # let the event loop answer other requests
        return {"type": "http.request", "body": piece, "more_body": not unpacker.eof}

    def _count(self, piece: bytes, is_last: bool) -> None:
        self._n_bytes += len(piece)
        if self._n_bytes > self._max_bytes:
            raise _too_large(self._max_bytes)
        self._tail = (self._tail + piece)[-END_BYTES:]
        if is_last and self._closing not in self._tail:
            raise Problem(
                400,
                "The form was cut off: its closing boundary is missing. Send it again.",
                key="request.form_cut_off",
            )


def _split_prefix(path: str, headers: Headers) -> tuple[str, str]:
    """Return the prefix under which a proxy shows the service, and the path without it, if
    the proxy left it on."""
    prefix = headers.get("x-forwarded-prefix", "").rstrip("/")
    if not PREFIX.fullmatch(prefix):
        prefix = ""
    return prefix, path.removeprefix(prefix) if path.startswith(f"{prefix}/") else path


def _too_large(max_bytes: int) -> Problem:
    """Return the refusal of a body of more than `max_bytes` bytes."""
    return Problem(
        413,
        f"The request has more than {max_bytes // MB} MB, the most that this service takes here.",
        key="request.too_large",
    )
