"""What a run that was killed leaves: its embedded Prefect server, and a record that says Running for ever."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowRunFilter
from prefect.settings import PREFECT_API_URL
from prefect.states import Crashed

RECORD = Path(".plumbline/server.pid")
OWNERS = ["pipeline", "retrain"]
"""Flows of which one at a time is at work in a checkout, see `checkout.alone`."""


def remember_server() -> None:
    """Note the servers this process has started; Prefect keeps their numbers to itself."""
    listed = " ".join(path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(" ".join(pid for pid in listed.split() if _is_server(int(pid))), encoding="utf-8")


def end_leftover_server() -> None:
    """End what the last run noted, if it is still there. To be called by the owner of the checkout only."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        for pid in map(int, RECORD.read_text(encoding="utf-8").split()):
            if _is_server(pid):
                os.kill(pid, signal.SIGTERM)
    RECORD.unlink(missing_ok=True)


def close_leftover_runs(own: object) -> None:
    """Give killed runs an end in the record of the embedded server; `own` is the number of the run that asks.

    To be called by the owner of the checkout only: in its own record, no other run that owns one can be at work; one of
    `score`, which owns none, can. On a server of one's own any may be, and there deployed runs are given up when they
    fall silent.
    """
    if PREFECT_API_URL.value():
        return
    dead = {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}, "id": {"not_any_": [own]}}
    with get_client(sync_client=True) as client:
        owners = FlowFilter.model_validate({"name": {"any_": OWNERS}})
        for run in client.read_flow_runs(flow_filter=owners, flow_run_filter=FlowRunFilter.model_validate(dead)):
            client.set_flow_run_state(run.id, Crashed(message="The process was killed. Run again."), force=True)


def _is_server(pid: int) -> bool:
    """A number alone proves nothing: it may have gone to another process since."""
    try:
        here = Path(f"/proc/{pid}/cwd").readlink() == Path.cwd()
        return here and b"prefect.server" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
