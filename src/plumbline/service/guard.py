"""Guard requests by token and size, and count them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.service.bodies import Unpacking, encoding_of, end_of, ended
from plumbline.service.job_store import JobStore
from plumbline.service.models import Models
from plumbline.service.problems import Problem, problem_of, refusals
from plumbline.service.settings import Settings

SEVERAL = "PROMETHEUS_MULTIPROC_DIR"
"""Folder in which several processes gather their figures; Prometheus's client reads the name."""
LEAST_FREE_MB = 200.0
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
BUILDINGS = (1, 4, 16, 64, 256, 1024, 4096)


class Meters:
    """Figures of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "plumbline_http_requests", "Requests.", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "plumbline_http_request_seconds", "Time to answer.", ["route"], buckets=SECONDS, registry=self.registry
        )
        self._inferred = Histogram(
            "plumbline_infer_buildings",
            "Buildings of a request for tensors.",
            buckets=BUILDINGS,
            registry=self.registry,
        )
        self._refused = Counter("plumbline_busy", "Requests refused for load.", ["what"], registry=self.registry)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def inferred(self, buildings: int) -> None:
        """Count the buildings of a request for tensors."""
        self._inferred.observe(buildings)

    def refused(self, what: str) -> None:
        """Count a request that was refused because the service is busy."""
        self._refused.labels(what).inc()

    def text(self, jobs: dict[str, int], models: list[tuple[str, str, str]]) -> bytes:
        """Return all figures in the format of Prometheus, summed over the processes."""
        now = CollectorRegistry()
        if SEVERAL in os.environ:
            MultiProcessCollector(now)  # type: ignore[no-untyped-call]
        gauge = Gauge("plumbline_jobs", "Jobs on the list.", ["status"], registry=CollectorRegistry())
        served = Gauge(
            "plumbline_model_info", "Models served.", ["name", "family", "version"], registry=CollectorRegistry()
        )
        for status, count in jobs.items():
            gauge.labels(status).set(count)
        for about in models:
            served.labels(*about).set(1)
        own = now if SEVERAL in os.environ else self.registry
        return generate_latest(own) + _one(gauge) + _one(served)


def _one(gauge: Gauge) -> bytes:
    alone = CollectorRegistry()
    alone.register(gauge)
    return generate_latest(alone)


def monitoring_routes(root: Path, store: JobStore, models: Models, meters: Meters) -> APIRouter:
    """Return the routes of probes and figures."""
    router = APIRouter(tags=["operation"])

    @router.get("/healthz", summary="Tell whether the process answers")
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @router.get("/readyz", summary="Tell whether work can be taken", responses=refusals(503))
    def readyz() -> dict[str, str]:
        store.counts()
        free = shutil.disk_usage(root).free / 1e6
        if free < LEAST_FREE_MB:
            raise Problem(503, f"{free:.0f} MB are free for files; {LEAST_FREE_MB:.0f} are needed.", 30)
        return {"status": "ok", "model": models.diagnosis.manifest.version}

    @router.get("/metrics", summary="Return figures for Prometheus", response_class=Response, responses=refusals(503))
    def metrics() -> Response:
        about = [(str(one["name"]), str(one["family"]), str(one["version"])) for one in models.describe()]
        return Response(meters.text(store.counts(), about), media_type=CONTENT_TYPE_LATEST)

    return router


OPEN = ("/healthz", "/readyz", "/", "/docs", "/openapi.json")
"""What needs no token: the probes, the documentation, and the web page, which asks the user for one."""
PREFIX = re.compile(rb"(?:/[\w.~-]+){1,9}")
"""What a proxy may write into `X-Forwarded-Prefix`."""
UPLOADS = ("/v1/predict", "/v1/restore", "/v1/tensors")
"""Paths that take files."""
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
        (prefix, path), holder = _below(scope["path"], headers), self._holder(headers)
        state = {**scope.get("state", {}), "holder": holder}
        scope = {**scope, "root_path": prefix, "path": prefix + path, "state": state}

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *SAFE_HEADERS]
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
        self._meters.count(scope["method"], route, status, time.perf_counter() - began)

    def _holder(self, headers: dict[bytes, bytes]) -> str | None:
        """Return the fingerprint of the token that a request brings; None if it brings none that is known."""
        sent = headers.get(b"authorization", b"")
        return next((holder for known, holder in self._holders if hmac.compare_digest(sent, known)), None)

    def _check(self, path: str, headers: dict[bytes, bytes], holder: str | None, tokens: int) -> None:
        if tokens > 1:  # a proxy before the service may go by another one than the service
            raise Problem(400, f"Authorization is given {tokens} times, and takes one value.")
        if self._holders and holder is None and path not in OPEN:
            raise Problem(401, "Send the service's token as `Authorization: Bearer TOKEN`.")
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
