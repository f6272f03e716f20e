"""What somebody has paused stays paused where deployments are sent again.

`prefect deploy` makes schedules and the triggers of deployments anew, and they would be at work.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient


@dataclass(frozen=True)
class Paused:
    """What rests on a server."""

    schedules: dict[UUID, set[str]]
    """of each deployment that has such"""
    deployments: set[UUID]
    """those all of whose schedules rest"""
    automations: set[str]
    """names; the trigger of a deployment is one"""


def read_paused(client: SyncPrefectClient) -> Paused:
    """What is paused now."""
    schedules, deployments = {}, set()
    for one in client.read_deployments():
        if resting := {each.schedule.model_dump_json() for each in one.schedules if not each.active}:
            schedules[one.id] = resting
            if not any(each.active for each in one.schedules):
                deployments.add(one.id)
    return Paused(schedules, deployments, {one.name for one in client.read_automations() if not one.enabled})


def pause_again(client: SyncPrefectClient, before: Paused) -> list[str]:
    """Pause what was paused `before`; names of the deployments and automations that rest, wholly or in part.

    Where all schedules of a deployment rested, a changed one does, too.
    """
    names = []
    for one in client.read_deployments():
        for each in one.schedules:
            whole = one.id in before.deployments
            if whole or each.schedule.model_dump_json() in before.schedules.get(one.id, ()):
                client.update_deployment_schedule(one.id, each.id, active=False)
                names.append(one.name)
    for automation in client.read_automations():
        if automation.name in before.automations:
            client.pause_automation(automation.id)
            names.append(automation.name)
    return sorted(set(names))
