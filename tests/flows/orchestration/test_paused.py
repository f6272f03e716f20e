"""An operator's pause outlives `make up`."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call
from uuid import uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolUpdate
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import ObjectAlreadyExists

from flows.orchestration.pools import Pool, create_automations, create_pools, pause_again, read_paused

NIGHT, NOON = "0 2 * * *", "0 12 * * *"


@pytest.fixture
def client(harness: None) -> Iterator[SyncPrefectClient]:
    """Of the server that all tests share: what these leave there is removed."""
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


def times(*active: bool) -> list[Any]:
    """Schedules at night and at noon, of which these are active."""
    crons = [CronSchedule(cron=cron) for cron in (NIGHT, NOON)]
    return [SimpleNamespace(id=uuid4(), schedule=cron, active=on) for cron, on in zip(crons, active, strict=False)]


def test_what_was_paused_is_paused_again() -> None:
    deployments = [
        SimpleNamespace(id=uuid4(), name=name, schedules=times(*active))
        for name, active in {"one": (False, True), "all": (False, False), "none": (True, True)}.items()
    ]
    automations = [SimpleNamespace(id=uuid4(), name=name, enabled=name == "on") for name in ("off", "on")]
    client = Mock(**{"read_deployments.return_value": deployments, "read_automations.return_value": automations})
    before = read_paused(client)
    one, whole, _ = deployments
    one.schedules, whole.schedules = times(True, True), [times(True)[0]]  # made anew
    whole.schedules[0].schedule = CronSchedule(cron="5 5 * * *")
    assert pause_again(client, before) == ["all", "off", "one"]
    paused = [call(item.id, item.schedules[0].id, active=False) for item in (one, whole)]
    assert client.update_deployment_schedule.mock_calls == paused
    client.pause_automation.assert_called_once_with(automations[0].id)


def test_of_a_pool_that_is_there_only_what_is_ours_is_written() -> None:
    """Not whether it is paused."""
    client = Mock(**{"create_work_pool.side_effect": ObjectAlreadyExists(Exception())})
    create_pools(client, [Pool(name="rests", limit=3)])
    ((name, update), _) = client.update_work_pool.call_args
    assert (name, update.concurrency_limit) == ("rests", 3)
    assert update.model_fields_set == {"base_job_template", "concurrency_limit"}
    assert update.base_job_template["variables"]["properties"]["command"]["default"] == "python -m prefect.engine"


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_paused_pool_stays_paused_and_its_limit_is_brought_up_to_date(client: SyncPrefectClient) -> None:
    create_pools(client, [Pool(name="rests", limit=2), Pool(name="works", limit=1)])
    client.update_work_pool("rests", WorkPoolUpdate(is_paused=True))
    create_pools(client, [Pool(name="rests", limit=3), Pool(name="works", limit=4)])
    found = {name: client.read_work_pool(name) for name in ("rests", "works")}
    assert {name: pool.is_paused for name, pool in found.items()} == {"rests": True, "works": False}
    assert {name: pool.concurrency_limit for name, pool in found.items()} == {"rests": 3, "works": 4}
    command = found["works"].base_job_template["variables"]["properties"]["command"]
    assert command["default"] == "python -m prefect.engine"
