"""Have another pool make a stage: request it, wait for it, and interpret its end."""

from __future__ import annotations

import contextlib
import time
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, WorkerStatus
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelling

from flows.versioning.stage_runner import (
    BAD_INPUT,
    REFUSED,
    Outcome,
    Say,
    StageFailedError,
    UnreachableError,
)

PATIENCE_S = 300.0
"""Longest time without a server that answers, or without a worker in the pool."""
POLL_S = 0.5
UNREACHABLE, FAILED = "Unreachable", "Failed"
"""Names of failed states: of one that may go well in a while, and of a bug."""
STATE_NAMES = {BAD_INPUT: "BadInput", REFUSED: "Refused"}
"""Exit code -> name of the failed state."""
EXIT_CODES = {name: code for code, name in STATE_NAMES.items()}


def make(
    stage: str, deployment: str, commit: str, say: Say, limit_s: float | None = None
) -> Outcome:
    """Have `stage` made by a run of `deployment`, and wait for its end; an interrupted wait
    cancels the run.

    Args:
        stage: its name.
        deployment: as FLOW/DEPLOYMENT; a deployment of the flow `stage`.
        commit: full hash that the other machine shall take.
        say: is told which run it is.
        limit_s: seconds that the stage may take there, counted from its start.

    Raises:
        UnreachableError: no worker is there for it, or the one that had it was lost.
        StageFailedError: it failed there; the message and the exit code are those of the stage.
    """
    parameters = {"stage": stage, "commit": commit, "limit_s": limit_s}
    try:
        run: Any = run_deployment(deployment, parameters=parameters, timeout=0)
    except ObjectNotFound:
        raise StageFailedError(
            f"{stage}: no deployment {deployment}. `prefect deploy --all`.",
            BAD_INPUT,
            key="deployment.missing",
        ) from None
    except httpx.HTTPError as error:
        if not _away(error):
            raise
        raise UnreachableError(
            f"{stage}: Prefect's server does not answer: {error}", key="prefect.no_answer"
        ) from error
    say(f"{stage}: handed over to {deployment}, run {run.name} ({run.id})")
    with get_client(sync_client=True) as client:
        try:
            ended = _ended(client, run.id, stage)
        except BaseException:
            with contextlib.suppress(
                Exception
            ):  # the reason for the end matters more than what the end meets
                client.set_flow_run_state(run.id, Cancelling())
            raise
    return _outcome(ended, stage, deployment)


def _ended(client: SyncPrefectClient, number: UUID, stage: str) -> FlowRun:
    """Return the run, once it has ended."""
    last_seen_s = time.monotonic()  # when last somebody was there for it
    while True:
        try:
            run = client.read_flow_run(number)
            if run.state is not None and run.state.is_final():
                return run
            if run.state is not None and not run.state.is_scheduled():
                last_seen_s = time.monotonic()
            elif time.monotonic() - last_seen_s > PATIENCE_S / 2 and _worker_is_there(client, run):
                last_seen_s = time.monotonic()  # waiting for its turn
            trouble = f"no worker of pool {run.work_pool_name} is there; start one"
        except httpx.HTTPError as error:  # a server that is started again meanwhile costs nothing
            if not _away(error):
                raise
            trouble = f"Prefect's server does not answer ({error})"
        if time.monotonic() - last_seen_s > PATIENCE_S:
            raise UnreachableError(f"{stage}: {trouble}", key="prefect.no_answer")
        time.sleep(POLL_S)


def _away(error: httpx.HTTPError) -> bool:
    """Return whether the server is out of reach, or fails by its proxy or database: it may
    be back in a while."""
    return not isinstance(error, httpx.HTTPStatusError) or error.response.is_server_error


def _worker_is_there(client: SyncPrefectClient, run: FlowRun) -> bool:
    workers = client.read_workers_for_work_pool(run.work_pool_name or "")
    return any(worker.status == WorkerStatus.ONLINE for worker in workers)


def _outcome(run: FlowRun, stage: str, deployment: str) -> Outcome:
    state = run.state
    if state is None:  # cannot be: `_ended` saw one
        raise StageFailedError(f"{stage}: run {run.name} has no state", 1, key="run.no_state")
    message = state.message or "without a message"
    if state.is_completed():
        outcome = message.rpartition(" ")[2]
        return "ran" if outcome == "ran" else "restored" if outcome == "restored" else "unchanged"
    if state.is_crashed():
        raise UnreachableError(
            f"{stage}: the worker of {deployment} was lost: {message}", key="worker.lost"
        )
    if state.is_cancelled():
        raise StageFailedError(
            f"{stage}: run {run.name} of {deployment} was cancelled", 1, key="run.cancelled"
        )
    if state.name == UNREACHABLE:
        raise UnreachableError(message, key="stage.unreachable")
    raise StageFailedError(message, EXIT_CODES.get(state.name or "", 1), key="stage.failed")
