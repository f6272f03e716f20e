"""Put the service together: routes, guard, models, list of jobs."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata

from fastapi import FastAPI
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp

from plumbline.core.files import check_place
from plumbline.serve.http import job_files
from plumbline.serve.http.api_page import api_page
from plumbline.serve.http.guard import Guard
from plumbline.serve.http.inference import infer_routes
from plumbline.serve.http.job_routes import job_routes
from plumbline.serve.http.job_store import JobStore
from plumbline.serve.http.models import Models
from plumbline.serve.http.monitoring import Meters, monitoring_routes
from plumbline.serve.http.problems import add_handlers
from plumbline.serve.http.runner import Runner
from plumbline.serve.http.settings import Settings
from plumbline.serve.map.page import is_built, page_html

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
        runner = Runner(root, store, models, settings)
        runner.start()
        models.watch()
        # What is loaded stays: to search it for cycles would make one request in thousands wait for 0.1 s.
        gc.collect()
        gc.freeze()
        yield
        models.stop()
        runner.stop()

    app = FastAPI(
        title="Plumbline",
        version=metadata.version("plumbline"),
        description=ABOUT,
        lifespan=lifespan,
        docs_url=None,  # it would load its scripts from elsewhere
        redoc_url=None,
    )
    add_handlers(app)
    # First: routes are tried in this order, and tensors are asked for most often.
    app.include_router(infer_routes(models, settings.limits, meters))
    app.include_router(monitoring_routes(root, store, models, meters))
    app.include_router(job_routes(root, store, models, settings.limits, meters))

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(api_page(app.openapi()))

    page = page_html(basemap=settings.basemap) if is_built() else NOT_BUILT

    @app.get("/", include_in_schema=False)
    def index() -> HTMLResponse:
        return HTMLResponse(page)

    return Guard(app, settings, meters)
