"""Run the service on uvicorn, in one process or several."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import uvicorn

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.serve.http.app import make_app
from plumbline.serve.http.monitoring import SEVERAL
from plumbline.serve.http.settings import Settings

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
    uvicorn.run("plumbline.serve.http.server:of_environment", factory=True, workers=settings.processes, **common)


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
