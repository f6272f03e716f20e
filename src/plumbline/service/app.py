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
from jinja2 import Environment
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp

from plumbline import __version__
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import check_place
from plumbline.serve.map.page import is_built, page_html
from plumbline.service import job_store as job_files
from plumbline.service.guard import SEVERAL, Guard, Meters, monitoring_routes
from plumbline.service.inference import infer_routes
from plumbline.service.job_store import JobStore
from plumbline.service.jobs import job_routes
from plumbline.service.models import Models
from plumbline.service.problems import add_handlers
from plumbline.service.runner import Runner
from plumbline.service.settings import Settings

_PAGE = Environment(autoescape=True).from_string(
    """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{{ title }}: operations</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
code{background:#f0f0f0;padding:0 .3em}table{border-collapse:collapse;margin:.5rem 0}
td,th{border:1px solid #ccc;padding:.2rem .6rem;text-align:left;vertical-align:top}
summary{cursor:pointer;font-weight:600}details{margin:.6rem 0}</style></head><body>
<h1>{{ title }}</h1><p>{{ description }}</p>
<p>For programs: <a href="openapi.json">openapi.json</a>. How to: docs/service.md.</p>
{% for one in operations %}<details><summary><code>{{ one.method }} {{ one.path }}</code> {{ one.summary }}</summary>
{% if one.fields %}<table><tr><th>field</th><th>in</th><th>needed</th><th>type</th><th>meaning</th></tr>
{% for field in one.fields %}<tr><td><code>{{ field.name }}</code></td><td>{{ field.where }}</td>
<td>{{ "yes" if field.needed else "no" }}</td><td>{{ field.type }}</td><td>{{ field.text }}</td></tr>
{% endfor %}</table>{% endif %}
<p>Answers:
{% for status, text in one.answers %}<code>{{ status }}</code> {{ text }}{{ "; " if not loop.last }}{% endfor %}
</p></details>
{% endfor %}</body></html>"""
)


def api_page(document: dict[str, Any]) -> str:
    """Return the page for an OpenAPI document."""
    operations = []
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            operations.append(
                {
                    "method": method.upper(),
                    "path": path,
                    "summary": about.get("summary", ""),
                    "fields": [*_parameters(about), *_body(about, document)],
                    "answers": [(status, one.get("description", "")) for status, one in about["responses"].items()],
                }
            )
    about = document["info"]
    return _PAGE.render(title=about["title"], description=about.get("description", ""), operations=operations)


def _parameters(about: dict[str, Any]) -> list[dict[str, Any]]:
    return [_field(one["name"], one["in"], one.get("required", False), one) for one in about.get("parameters", [])]


def _body(about: dict[str, Any], document: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for kind, content in about.get("requestBody", {}).get("content", {}).items():
        schema = content.get("schema", {})
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        needed = schema.get("required", [])
        fields = schema.get("properties", {})
        found += [_field(name, kind, name in needed, {"schema": one, **one}) for name, one in fields.items()]
    return found


def _field(name: str, where: str, needed: bool, about: dict[str, Any]) -> dict[str, Any]:
    schema = about.get("schema", {})
    kinds = [schema, *schema.get("anyOf", [])]
    named = [str(kind["type"]) for kind in kinds if kind.get("type") not in (None, "null")]
    bounds = [f"{key} {kind[key]}" for kind in kinds for key in ("minimum", "maximum", "default") if key in kind]
    text = "; ".join([about.get("description", ""), *bounds]).strip("; ")
    return {"name": name, "where": where, "needed": needed, "type": " or ".join(named), "text": text}


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
        version=__version__,
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
    token = settings.token.get_secret_value() if settings.token else None
    written.write_text(settings.model_copy(update={"token": None}).model_dump_json(), encoding="utf-8")
    os.environ[HANDED_ON] = str(written)
    if token:
        os.environ[f"{HANDED_ON}_TOKEN"] = token
    uvicorn.run("plumbline.service.app:of_environment", factory=True, workers=settings.processes, **common)


def of_environment() -> object:
    """Return the application for one of several processes."""
    from plumbline.core.console import setup_logging

    setup_logging()
    given = Settings.model_validate_json(Path(os.environ[HANDED_ON]).read_text(encoding="utf-8"), context=None)
    token = os.environ.get(f"{HANDED_ON}_TOKEN")
    return make_app(Settings.model_validate({**given.model_dump(), "token": token}))


def _serve(config: uvicorn.Config) -> None:
    server = uvicorn.Server(config)
    server.run()
    if not server.started:
        raise InputError(f"{config.host}:{config.port}: the service could not start there. Is the port taken?")
