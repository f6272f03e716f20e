"""A service in this process, or in one of its own, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
from starlette.testclient import TestClient

import plumbline
from plumbline.service import runner
from plumbline.service.app import make_app
from plumbline.service.runner import LocalJob
from plumbline.service.settings import ServiceLimits, ServiceSettings
from tests.ports import free_port
from tests.service.forked import ForkedJob, place
from tests.waiting import PATIENCE_S, until

DEFAULT = ServiceLimits()


@contextmanager
def service(
    folder: Path,
    package: Path,
    fields: Path,
    limits: ServiceLimits = DEFAULT,
    job: type[LocalJob] = ForkedJob,
    **more: Any,
) -> Iterator[TestClient]:
    """A service in this process; its jobs run in processes of their own, which need not load the libraries again.

    Args:
        folder, package, fields, limits, more: its settings.
        job: `LocalJob` for processes as the service itself starts them.
    """
    place()
    settings = ServiceSettings(folder=folder, model=str(package), restoration_model=str(fields), limits=limits, **more)
    with (
        mock.patch.object(runner, "LocalJob", job),
        mock.patch.object(tempfile, "tempdir", tempfile.tempdir),  # which the service sets
        TestClient(make_app(settings), raise_server_exceptions=False) as client,
    ):
        yield client


@contextmanager
def process(folder: Path, package: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """`plumbline serve` in a process of its own, once it answers; the process and its address."""
    port = free_port()
    command = [sys.executable, "-m", "plumbline", "serve", "--port", str(port), "--folder", str(folder)]
    environment = os.environ | {"PYTHONPATH": str(Path(plumbline.__file__).parents[1])}
    with (folder.parent / "said.txt").open("ab") as said:
        begun = subprocess.Popen([*command, "--model", str(package), *options], stderr=said, env=environment)
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: _answers(address), "an answer of the service", needs=begun, found=folder.parent / "said.txt")
        yield begun, address
    finally:
        begun.kill()
        begun.wait()


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/healthz", timeout=PATIENCE_S).status_code == 200
    except httpx.TransportError:
        return False


def ended(client: Any, job: str, address: str = "") -> dict[str, Any]:
    """The job, once it has ended."""
    found: dict[str, Any] = {}

    def over() -> bool:
        found.update(client.get(f"{address}/v1/jobs/{job}").json())
        return found["status"] not in ("queued", "running")

    until(over, f"the end of job {job}", found=lambda: found)
    return found


def files(points: list[Path], *buildings: Path) -> list[tuple[str, tuple[str, bytes]]]:
    """The files of a request."""
    given = [("points", path) for path in points] + [("buildings", path) for path in buildings]
    return [(name, (path.name, path.read_bytes())) for name, path in given]


def is_problem(answer: Any, status: int, text: str) -> bool:
    """Whether an answer is a problem with this status, and says `text`; fails with what it is."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    content = answer.json()
    assert content["status"] == status
    assert text in content["detail"], content["detail"]
    assert "/" not in content["detail"].replace("application/", "").replace("multipart/", "").replace(
        "image/", ""
    ).replace("text/", "")
    return True
