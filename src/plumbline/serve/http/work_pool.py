"""Hand jobs to Prefect's work pools through its HTTP API, where `PREFECT_API_URL` is set."""

from __future__ import annotations

import base64
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from plumbline.core.errors import PlumblineError

ADDRESS, KEY, LOGIN = "PREFECT_API_URL", "PREFECT_API_KEY", "PREFECT_API_AUTH_STRING"
DEPLOYMENT = ("service-job", "service-job")
"""Flow and deployment, see prefect.yaml."""
SECONDS = 10.0
DONE = "COMPLETED"
OVER = (DONE, "FAILED", "CRASHED", "CANCELLED")


class PoolUnreachable(PlumblineError):
    """Prefect's server does not answer; the job waits."""


def asked() -> bool:
    """Return whether jobs go to work pools."""
    return bool(os.environ.get(ADDRESS))


class PoolJob:
    """A job that a worker does on a machine with access to the service's folder."""

    def __init__(self, run: str) -> None:
        """Attach to a flow run by its number."""
        self.run = run

    @classmethod
    def begin(cls, folder: Path) -> PoolJob:
        """Create a flow run for the job in `folder`.

        Raises:
            PoolUnreachable: the server does not answer, or has no such deployment.
        """
        flow, deployment = map(urllib.parse.quote, DEPLOYMENT)
        number = _call("GET", f"deployments/name/{flow}/{deployment}")["id"]
        asked_for = {"parameters": {"folder": str(folder)}, "name": folder.name, "idempotency_key": folder.name}
        return cls(str(_call("POST", f"deployments/{number}/create_flow_run", asked_for)["id"]))

    def poll(self) -> int | None:
        """Return 0 if the job is done, 1 if it failed, None while it runs."""
        state = _call("GET", f"flow_runs/{self.run}")["state_type"]
        return None if state not in OVER else int(state != DONE)

    def end(self) -> None:
        """Cancel the flow run; its worker ends the process."""
        _call("POST", f"flow_runs/{self.run}/set_state", {"state": {"type": "CANCELLING"}})


def _call(method: str, path: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
    address = f"{os.environ[ADDRESS].rstrip('/')}/{path}"
    if not address.startswith(("http://", "https://")):
        raise PoolUnreachable(f"{ADDRESS}: an address that begins with http is needed.")
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(KEY):
        headers["Authorization"] = f"Bearer {key}"
    elif login := os.environ.get(LOGIN):
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(address, body, headers, method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
    except (OSError, ValueError) as error:
        raise PoolUnreachable(f"{ADDRESS}: Prefect's server does not answer ({type(error).__name__}).") from error
    return found
