"""Build the application with its page, and serve it."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp

from plumbline import __version__
from plumbline.core.console import log, setup_json_logging, setup_logging
from plumbline.core.errors import InputError
from plumbline.core.files import check_place
from plumbline.serve.map.page import is_built, page_html
from plumbline.service import job_store as job_files
from plumbline.service.guard import Guard
from plumbline.service.inference import infer_routes
from plumbline.service.job_store import JobStore
from plumbline.service.jobs import job_routes
from plumbline.service.models import Models
from plumbline.service.monitoring import SEVERAL, Meters, State, monitoring_routes
from plumbline.service.openapi import Documented, api_page
from plumbline.service.problems import add_handlers
from plumbline.service.runner import Runner
from plumbline.service.settings import Settings

NOT_BUILT = (
    "<!DOCTYPE html><title>Plumbline</title><p>The web page is not built (<code>make web</code>). "
    "All operations: <a href=docs>docs</a>."
)
ABOUT = (
    "Judge buildings and restore displacement fields from InSAR points. Files go in as jobs; prepared features are "
    "answered at once under `/v2`, by the Open Inference Protocol. Errors are problem details (RFC 9457)."
)


def make_app(settings: Settings) -> ASGIApp:
    """Return the service as an ASGI application.

    Raises:
        InputError: a model cannot be opened, or the folder cannot be written.
        SignatureRefused: a model is not signed with the key of the settings.
    """
    root = settings.folder.resolve()
    check_place(root)
    for name in (job_files.JOBS, job_files.INCOMING):
        (root / name).mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(root / job_files.INCOMING)  # uploads are spooled there, not where the system likes
    store = JobStore(root / job_files.DATABASE)
    models = Models(settings)
    meters = Meters()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        runner = Runner(root, store, models, settings, meters)
        runner.start()
        models.watch()
        # What is loaded stays: to search it for cycles would make one request in thousands wait for 0.1 s.
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
    state = State(root, store, models, settings.score_folder)
    app.include_router(monitoring_routes(root, store, models, meters, state))
    app.include_router(job_routes(root, store, models, settings.limits, meters))

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(api_page(app.openapi()))

    page = page_html(basemap=settings.basemap) if is_built() else NOT_BUILT

    @app.get("/", include_in_schema=False)
    def index() -> HTMLResponse:
        return HTMLResponse(page)

    return Guard(app, settings, meters)


GRACE_SECONDS = 20
HANDED_ON = "PLUMBLINE_SERVE"
"""Environment variable with the settings' file, for the processes of a service."""


def run(settings: Settings) -> None:
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
        _serve(uvicorn.Config(make_app(settings), lifespan="on", **common))
        return
    folder = settings.folder.resolve()
    figures = folder / "figures"
    shutil.rmtree(figures, ignore_errors=True)
    figures.mkdir(parents=True)
    os.environ[SEVERAL] = str(figures)
    written = folder / "settings.json"
    written.touch(mode=0o600)
    written.write_text(settings.model_copy(update={"tokens": ()}).model_dump_json(), encoding="utf-8")
    os.environ[HANDED_ON] = str(written)
    os.environ[f"{HANDED_ON}_TOKENS"] = " ".join(token.get_secret_value() for token in settings.tokens)
    uvicorn.run("plumbline.service.app:of_environment", factory=True, workers=settings.processes, **common)


def of_environment() -> object:
    """Return the application for one of several processes."""
    given = Settings.model_validate_json(Path(os.environ[HANDED_ON]).read_text(encoding="utf-8"), context=None)
    setup_json_logging() if given.log_format == "json" else setup_logging()
    tokens = os.environ[f"{HANDED_ON}_TOKENS"].split()
    return make_app(Settings.model_validate({**given.model_dump(), "tokens": tokens}))


def _serve(config: uvicorn.Config) -> None:
    server = uvicorn.Server(config)
    server.run()
    if not server.started:
        raise InputError(f"{config.host}:{config.port}: the service could not start there. Is the port taken?")
