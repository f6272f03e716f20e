"""Create work pools and automations on Prefect's server, and pause again what was paused."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import yaml
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas import State
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectAlreadyExists
from prefect.states import Cancelled, Crashed
from prefect.workers.process import ProcessWorker
from pydantic import BaseModel, PositiveInt, ValidationError

from flows.versioning.stage_runner import BAD_INPUT, OWN_STAGES, StageFailedError

FILE = Path("deploy/pools.yaml")
HEARTBEAT_S = 30
"""Seconds between two signs of life of a run: the least that Prefect takes."""
SILENT_S = 3 * HEARTBEAT_S + 5
"""A run is taken for dead after so long without one; less than three would end a run whose
machine is only busy."""
WAITING_S = 600
"""A run that a worker took, and that does not begin, or does not end after it was
cancelled, is given up."""
ENGINE = "python -m prefect.engine"
"""Command that a worker starts for a run. By default Prefect first starts a process that
fetches the flow's code and then becomes this one: both load Prefect, for seconds. The code
is in the clone already."""
GONE = "The workers of this machine were stopped (`make down`)."
ENDED = {"Completed", "Failed", "Cancelled", "Crashed", "TimedOut"}


class Pool(BaseModel, extra="forbid", frozen=True):
    """A work pool of deploy/pools.yaml; comments there explain the entries."""

    name: str
    limit: PositiveInt
    workers: PositiveInt = 1
    gpus: Literal["none", "share"] = "none"
    makes: list[str] = []
    clone: bool = True

    def worker_names(self) -> list[str]:
        """Return `cpu`, or `cpu-1`, `cpu-2` if there are several."""
        return (
            [self.name]
            if self.workers == 1
            else [f"{self.name}-{n}" for n in range(1, self.workers + 1)]
        )

    def variables(self, worker: str, gpus: list[str]) -> dict[str, str]:
        """Return variables for a worker's environment, on a machine with these GPUs."""
        own = (
            gpus[self.worker_names().index(worker) :: self.workers] if self.gpus == "share" else []
        )
        return {OWN_STAGES: " ".join(self.makes), "CUDA_VISIBLE_DEVICES": ",".join(own)}


def read_pools() -> list[Pool]:
    """Read the pools of deploy/pools.yaml.

    Raises:
        StageFailedError: the file is missing or says something else.
    """
    try:
        entries = yaml.safe_load(FILE.read_text(encoding="utf-8"))
        return [Pool(name=name, **(entry or {})) for name, entry in entries.items()]
    except (OSError, yaml.YAMLError, TypeError, AttributeError, ValidationError) as error:
        raise StageFailedError(f"{FILE}: {error}", BAD_INPUT, key="pools.bad_value") from error


def gpus_here() -> list[str]:
    """Return numbers or names of this machine's GPUs: those of CUDA_VISIBLE_DEVICES, where
    it is set."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name.strip() for name in visible.split(",") if name.strip()]
    try:
        done = subprocess.run(
            ["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [
        str(number)
        for number in range(sum(line.startswith("GPU ") for line in done.stdout.splitlines()))
    ]


def create_pools(client: SyncPrefectClient, pools: list[Pool]) -> None:
    """Create the pools, or update their limits; a paused pool stays paused."""
    template = ProcessWorker.get_default_base_job_template()
    template["variables"]["properties"]["command"]["default"] = ENGINE
    for pool in pools:
        ours: dict[str, Any] = {"base_job_template": template, "concurrency_limit": pool.limit}
        try:
            client.create_work_pool(WorkPoolCreate(name=pool.name, type="process", **ours))
        except (
            ObjectAlreadyExists
        ):  # to overwrite it would write all it can hold, not only what is ours
            client.update_work_pool(pool.name, WorkPoolUpdate(**ours))


def automations() -> list[AutomationCore]:
    """Return automations that end runs stuck in a state, for example after the loss of a
    machine."""
    crashed, cancelled = StateType.CRASHED, StateType.CANCELLED
    lost = "No sign of life: the machine or the process was lost. Retry the run."
    held = "A worker took the run and did not begin it. Retry the run."
    begun = {"Running", "Cancelling", "AwaitingConcurrencySlot"}
    return [
        _given_up(
            name,
            after={after},
            expect={*expected, *ENDED},
            within_s=within_s,
            becomes=state,
            message=message,
        )
        for name, after, expected, within_s, state, message in (
            ("silent", "heartbeat", {"heartbeat"}, SILENT_S, crashed, lost),
            ("not-begun", "Pending", begun, WAITING_S, crashed, held),
            (
                "not-cancelled",
                "Cancelling",
                (),
                WAITING_S,
                cancelled,
                "Nobody was there to cancel the run.",
            ),
        )
    ]


def create_automations(client: SyncPrefectClient) -> None:
    """Create the automations, replacing those of the same name that differ.

    An equal one is left alone: a change would make the server forget the runs for which it
    awaits a heartbeat, and a silent run would stay Running for ever.
    """
    for automation in automations():
        same = client.read_automations_by_name(automation.name)
        if not same:
            client.create_automation(automation)
        elif _content(same[0]) != _content(automation):
            client.update_automation(same[0].id, automation)


def _content(automation: AutomationCore) -> dict[str, Any]:
    """Return an automation's content without the numbers that the server assigns."""
    return automation.model_dump(
        include=set(AutomationCore.model_fields), exclude={"trigger": {"id"}}
    )


def heard_of(client: SyncPrefectClient, pool: str, since: datetime) -> set[str]:
    """Return the names of a pool's workers with a heartbeat since then."""
    found = client.read_workers_for_work_pool(pool)
    return {
        worker.name
        for worker in found
        if worker.last_heartbeat_time and worker.last_heartbeat_time >= since
    }


def close_runs(client: SyncPrefectClient, runs: set[str]) -> list[str]:
    """Give runs of killed processes, and the flows inside them, a final state; return their
    names."""
    at_work = {"type": {"any_": ["RUNNING", "PENDING", "CANCELLING"]}}
    inside = {"parent_flow_run_id": {"any_": list(runs)}, "deployment_id": {"is_null_": True}}
    open_runs = [
        run
        for criterion in ({"id": {"any_": list(runs)}}, inside)
        for run in client.read_flow_runs(
            flow_run_filter=FlowRunFilter.model_validate({"state": at_work, **criterion})
        )
    ]
    for run in open_runs:
        cancelled = run.state is not None and run.state.is_cancelling()
        state: State[None] = (
            Cancelled(message=GONE) if cancelled else Crashed(message=f"{GONE} Retry the run.")
        )
        client.set_flow_run_state(run.id, state, force=True)
    return [run.name for run in open_runs]


def _given_up(
    name: str, *, after: set[str], expect: set[str], within_s: int, becomes: StateType, message: str
) -> AutomationCore:
    return AutomationCore(
        name=f"plumbline-{name}",
        description=message,
        trigger=EventTrigger(
            match={"prefect.resource.id": "prefect.flow-run.*"},
            for_each={"prefect.resource.id"},
            after={f"prefect.flow-run.{event}" for event in after},
            expect={f"prefect.flow-run.{event}" for event in expect},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=within_s),
        ),
        actions=[ChangeFlowRunState(name=None, state=becomes, message=message, force=False)],
    )


@dataclass(frozen=True)
class Paused:
    """Schedules, deployments and automations that are paused on a server."""

    schedules: dict[UUID, set[str]]
    """of each deployment that has such"""
    deployments: set[UUID]
    """those all of whose schedules rest"""
    automations: set[str]
    """names; the trigger of a deployment is one"""


def read_paused(client: SyncPrefectClient) -> Paused:
    """Return what is paused now."""
    schedules, deployments = {}, set()
    for deployment in client.read_deployments():
        if resting := {
            schedule.schedule.model_dump_json()
            for schedule in deployment.schedules
            if not schedule.active
        }:
            schedules[deployment.id] = resting
            if not any(schedule.active for schedule in deployment.schedules):
                deployments.add(deployment.id)
    return Paused(
        schedules,
        deployments,
        {deployment.name for deployment in client.read_automations() if not deployment.enabled},
    )


def pause_again(client: SyncPrefectClient, before: Paused) -> list[str]:
    """Pause what was paused `before`; return the names of fully or partly paused
    deployments and automations.

    If all schedules of a deployment were paused, a changed one is paused too.
    """
    names = []
    for deployment in client.read_deployments():
        for schedule in deployment.schedules:
            is_all_paused = deployment.id in before.deployments
            if is_all_paused or schedule.schedule.model_dump_json() in before.schedules.get(
                deployment.id, ()
            ):
                client.update_deployment_schedule(deployment.id, schedule.id, active=False)
                names.append(deployment.name)
    for automation in client.read_automations():
        if automation.name in before.automations:
            client.pause_automation(automation.id)
            names.append(automation.name)
    return sorted(set(names))
