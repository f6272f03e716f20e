"""Build the application with its page, and serve it."""

from __future__ import annotations

import gc
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from jinja2 import Environment
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp

from plumbline import __version__
from plumbline.core.console import log, setup_json_logging, setup_logging
from plumbline.core.errors import InputError
from plumbline.core.files import check_place
from plumbline.serve.map.page import is_built, page_html
from plumbline.service import job_store as job_files
from plumbline.service.forms import table_schemas
from plumbline.service.guard import OPEN, Guard
from plumbline.service.inference import infer_routes
from plumbline.service.job_store import JobStore
from plumbline.service.jobs import job_routes
from plumbline.service.models import Models
from plumbline.service.monitoring import SEVERAL, Meters, monitoring_routes
from plumbline.service.problems import Details, add_handlers, refusals
from plumbline.service.runner import Runner
from plumbline.service.settings import ServiceSettings

NOT_BUILT = (
    "<!DOCTYPE html><title>Plumbline</title><p>The web page is not built (<code>make web</code>). "
    "All operations: <a href=docs>docs</a>."
)
ABOUT = (
    "Judge buildings and restore displacement fields from InSAR points. Files go in as jobs; "
    "prepared features are "
    "answered at once under `/v2`, by the Open Inference Protocol. Errors are problem details "
    "(RFC 9457)."
)
GRACE_SECONDS = 20
HANDED_ON = "PLUMBLINE_SERVE"
"""Environment variable with the settings, for the processes of a service."""
BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of the service. One that was started without tokens needs none.",
}
API_PAGE = Environment(autoescape=True).from_string(
    """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{{ info.title }}: operations</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}</style>
</head><body><h1>{{ info.title }}</h1><p>{{ info.description }}</p>
<p>Fields and answers of each operation: <a href="openapi.json">openapi.json</a>. How to: docs/service.md.</p><ul>
{% for path, methods in paths.items() %}{% for method, about in methods.items() %}
<li><code>{{ method.upper() }} {{ path }}</code> {{ about.summary }}</li>
{% endfor %}{% endfor %}</ul></body></html>"""
)
"""Page that lists the operations of an OpenAPI document."""


def make_app(settings: ServiceSettings) -> ASGIApp:
    """Return the service as an ASGI application.

    Raises:
        InputError: a model cannot be opened, or the folder cannot be written.
        SignatureRefused: a model is not signed with the key of the settings.
    """
    root = settings.folder.resolve()
    check_place(root)
    for name in (job_files.JOBS, job_files.INCOMING):
        (root / name).mkdir(parents=True, exist_ok=True)
    # Uploads are spooled there, not where the system likes.
    tempfile.tempdir = str(root / job_files.INCOMING)
    store, models, meters = JobStore(root / job_files.DATABASE), Models(settings), Meters()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        runner = Runner(root, store, models, settings, meters)
        runner.start()
        models.watch()
        # What is loaded stays: to search it for cycles would make one request in thousands
        # wait for 0.1 s.
        gc.collect()
        gc.freeze()
        yield
        models.stop()
        runner.stop()

    app = Documented(
        title="Plumbline",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
        docs_url=None,  # it would load its scripts from elsewhere
        redoc_url=None,
    )
    add_handlers(app)
    # First: routes are tried in this order, and tensors are asked for most often.
    app.include_router(infer_routes(models, settings.limits, meters))
    app.include_router(monitoring_routes(root, store, models, meters, settings.score_folder))
    app.include_router(job_routes(root, store, models, settings.limits, meters))

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(API_PAGE.render(app.openapi()))

    page = page_html(basemap=settings.basemap) if is_built() else NOT_BUILT

    @app.get("/", include_in_schema=False)
    def index() -> HTMLResponse:
        return HTMLResponse(page)

    return Guard(app, settings, meters)


def run(settings: ServiceSettings) -> None:
    """Serve until a signal ends it.

    Raises:
        InputError: a model or the folder is refused, or the address is taken.
    """
    common: dict[str, Any] = {
        "host": settings.host,
        "port": settings.port,
        "log_level": "warning",
        "server_header": False,
        "timeout_graceful_shutdown": GRACE_SECONDS,
    }
    if settings.log_format == "json":
        common["log_config"] = None  # uvicorn's own would write text
        setup_json_logging()
    log.info("http://%s:%d (documentation at /docs); end with Ctrl-C", settings.host, settings.port)
    if settings.processes == 1:
        server = uvicorn.Server(uvicorn.Config(make_app(settings), lifespan="on", **common))
        server.run()
        if not server.started:
            raise InputError(
                f"{settings.host}:{settings.port}: the service could not start there. Is the "
                "port taken?",
                key="service.not_started",
            )
        return
    figures = settings.folder.resolve() / "figures"
    shutil.rmtree(figures, ignore_errors=True)
    figures.mkdir(parents=True)
    os.environ[SEVERAL] = str(figures)
    tokens = [token.get_secret_value() for token in settings.tokens]
    os.environ[HANDED_ON] = json.dumps(settings.model_dump(mode="json") | {"tokens": tokens})
    uvicorn.run(
        "plumbline.service.app:of_environment", factory=True, workers=settings.processes, **common
    )


def of_environment() -> ASGIApp:
    """Return the application for one of several processes."""
    # Jobs need not know the tokens.
    settings = ServiceSettings.model_validate_json(os.environ.pop(HANDED_ON))
    setup_json_logging() if settings.log_format == "json" else setup_logging()
    return make_app(settings)


class Documented(FastAPI):
    """An application that documents what FastAPI does not: files, columns, tokens and
    problem details."""

    def openapi(self) -> dict[str, Any]:
        """Return the document. What is there already is left as it is: FastAPI keeps one
        document."""
        document = super().openapi()
        parts = document["components"]
        parts["securitySchemes"] = {"bearer": BEARER}
        parts["schemas"] |= {"Details": Details.model_json_schema(), **table_schemas()}
        for unused in ("HTTPValidationError", "ValidationError"):
            parts["schemas"].pop(unused, None)
        for path, methods in document["paths"].items():
            for about in methods.values():
                responses = about["responses"]
                if "HTTPValidationError" in str(
                    responses.get("422")
                ):  # the service never answers with FastAPI's own
                    del responses["422"]
                if path not in OPEN:
                    about["security"] = [{"bearer": []}]
                    responses |= {str(status): refused for status, refused in refusals(401).items()}
        return document
