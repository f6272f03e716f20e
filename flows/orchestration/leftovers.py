"""What a run that was killed leaves in Prefect's record: that it says Running for ever."""

from __future__ import annotations

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowRunFilter
from prefect.settings import PREFECT_API_URL
from prefect.states import Crashed

from flows.orchestration import embedded_server

OWNERS = ["pipeline", "portions", "retrain"]
"""Flows of which one at a time is at work in a checkout, see `checkout.alone`, and what runs inside of these alone."""


def close_leftover_runs(own: object) -> None:
    """Give killed runs an end in the record of the embedded server; `own` is the number of the run that asks.

    To be called by the owner of the checkout only: in its own record, no other run that owns one can be at work; one of
    `score`, which owns none, can. On a server of one's own any may be, and there deployed runs are given up when they
    fall silent.
    """
    if PREFECT_API_URL.value() and not embedded_server.at_work():
        return
    dead = {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}, "id": {"not_any_": [own]}}
    with get_client(sync_client=True) as client:
        owners = FlowFilter.model_validate({"name": {"any_": OWNERS}})
        for run in client.read_flow_runs(flow_filter=owners, flow_run_filter=FlowRunFilter.model_validate(dead)):
            client.set_flow_run_state(run.id, Crashed(message="The process was killed. Run again."), force=True)
