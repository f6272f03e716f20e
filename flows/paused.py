"""What somebody has paused stays paused where deployments are sent again: `prefect deploy` makes schedules anew."""

from __future__ import annotations

from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient

Paused = dict[UUID, tuple[bool, set[str]]]
"""Deployment -> whether it is paused as a whole, or all of its schedules are; and its paused schedules."""


def read_paused(client: SyncPrefectClient) -> Paused:
    """What is paused now."""
    found: Paused = {}
    for one in client.read_deployments():
        resting = {each.schedule.model_dump_json() for each in one.schedules if not each.active}
        whole = one.paused or (bool(one.schedules) and not any(each.active for each in one.schedules))
        if whole or resting:
            found[one.id] = whole, resting
    return found


def pause_again(client: SyncPrefectClient, before: Paused) -> list[str]:
    """Pause what was paused `before`; names of the deployments that have a paused schedule now.

    Where all of a deployment rested, it does so under a changed schedule, too.
    """
    names = []
    for one in client.read_deployments():
        whole, resting = before.get(one.id, (False, set()))
        for each in one.schedules:
            if each.active and (whole or each.schedule.model_dump_json() in resting):
                client.update_deployment_schedule(one.id, each.id, active=False)
        if one.id in before and one.schedules:
            names.append(one.name)
    return names
