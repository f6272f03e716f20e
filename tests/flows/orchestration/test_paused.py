"""An operator's pause outlives `make up`."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolUpdate
from prefect.client.schemas.schedules import CronSchedule

from flows.orchestration.pools import Pool, create_automations, create_pools, pause_again, read_paused

NIGHT, NOON = "0 2 * * *", "0 12 * * *"


class Memory:
    """Deployments and their schedules, as a server has them."""

    def __init__(self) -> None:
        self.deployments: dict[str, Any] = {}

    def create_flow_from_name(self, name: str) -> str:
        return name

    def create_deployment(self, flow: str, name: str, schedules: list[Any], paused: bool | None) -> None:
        """A deployment that is made again has the same number, and new schedules."""
        made = [SimpleNamespace(id=uuid4(), schedule=one.schedule, active=one.active) for one in schedules]
        number = self.deployments[name].id if name in self.deployments else uuid4()
        self.deployments[name] = SimpleNamespace(id=number, name=name, schedules=made)

    def read_deployments(self) -> list[Any]:
        return list(self.deployments.values())

    def read_deployment_by_name(self, name: str) -> Any:
        return self.deployments[name.removeprefix("kept/")]

    def update_deployment_schedule(self, deployment: object, schedule: object, active: bool) -> None:
        (found,) = [s for d in self.read_deployments() if d.id == deployment for s in d.schedules if s.id == schedule]
        found.active = active

    def read_automations(self) -> list[Any]:
        return []


@pytest.fixture(params=[pytest.param("server", marks=pytest.mark.slow)])
def client(request: pytest.FixtureRequest) -> Iterator[SyncPrefectClient | Memory]:
    """Of the server that all tests share: what these leave there is removed."""
    if request.param == "memory":
        yield Memory()
        return
    request.getfixturevalue("harness")
    with get_client(sync_client=True) as found:
        yield found
        for one in found.read_deployments():
            if one.name in ("one", "all", "none"):
                found.delete_deployment(one.id)
        for automation in found.read_automations():
            found.delete_automation(automation.id)


def deploy(client: SyncPrefectClient, name: str, *times: str, paused: bool | None = None) -> None:
    schedules = [DeploymentScheduleCreate(schedule=CronSchedule(cron=time), active=True) for time in times]
    flow = client.create_flow_from_name("kept")
    client.create_deployment(flow, name, schedules=schedules, paused=paused)


def active(client: SyncPrefectClient, name: str) -> dict[str, bool]:
    found = client.read_deployment_by_name(f"kept/{name}")
    return {one.schedule.cron: one.active for one in found.schedules if isinstance(one.schedule, CronSchedule)}


def pause(client: SyncPrefectClient, name: str, time: str) -> None:
    found = client.read_deployment_by_name(f"kept/{name}")
    for one in found.schedules:
        if isinstance(one.schedule, CronSchedule) and one.schedule.cron == time:
            client.update_deployment_schedule(found.id, one.id, active=False)


@pytest.mark.parametrize("client", ["memory", pytest.param("server", marks=pytest.mark.slow)], indirect=True)
def test_paused_schedules_are_paused_again_and_the_others_go_on(client: SyncPrefectClient) -> None:
    for name in ("one", "all", "none"):
        deploy(client, name, NIGHT, NOON)
    pause(client, "one", NIGHT)
    pause(client, "all", NIGHT)
    pause(client, "all", NOON)
    before = read_paused(client)
    for name in ("one", "none"):
        deploy(client, name, NIGHT, NOON)
    deploy(client, "all", "5 5 * * *")  # at another time from now on
    assert active(client, "all") == {"5 5 * * *": True}
    assert active(client, "one") == {NIGHT: True, NOON: True}
    assert pause_again(client, before) == ["all", "one"]
    assert active(client, "one") == {NIGHT: False, NOON: True}
    assert active(client, "none") == {NIGHT: True, NOON: True}
    assert active(client, "all") == {"5 5 * * *": False}


def test_a_paused_automation_is_paused_again_where_it_is_made_anew(client: SyncPrefectClient) -> None:
    create_automations(client)
    silent, begun = (client.read_automations_by_name(f"plumbline-{name}")[0] for name in ("silent", "not-begun"))
    client.pause_automation(silent.id)
    before = read_paused(client)
    for one in (silent, begun):
        client.delete_automation(one.id)
    create_automations(client)
    assert pause_again(client, before) == ["plumbline-silent"]
    states = {one.name: one.enabled for one in client.read_automations()}
    assert (states["plumbline-silent"], states["plumbline-not-begun"]) == (False, True)


def test_a_paused_pool_stays_paused_and_its_limit_is_brought_up_to_date(client: SyncPrefectClient) -> None:
    create_pools(client, [Pool(name="rests", limit=2), Pool(name="works", limit=1)])
    client.update_work_pool("rests", WorkPoolUpdate(is_paused=True))
    create_pools(client, [Pool(name="rests", limit=3), Pool(name="works", limit=4)])
    found = {name: client.read_work_pool(name) for name in ("rests", "works")}
    assert {name: pool.is_paused for name, pool in found.items()} == {"rests": True, "works": False}
    assert {name: pool.concurrency_limit for name, pool in found.items()} == {"rests": 3, "works": 4}
    command = found["works"].base_job_template["variables"]["properties"]["command"]
    assert command["default"] == "python -m prefect.engine"
