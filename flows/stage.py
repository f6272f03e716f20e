"""Make one stage on its own machine: at a given commit, with inputs from DVC's remote, and
the result back there."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.states import Completed

from flows.orchestration import tasks
from flows.versioning import stage_runner
from flows.versioning.checkout import alone
from flows.versioning.families import DIAGNOSIS, Family, family_of, inside
from flows.versioning.stage_runner import StageFailedError


@flow(name="stage", flow_run_name="{stage}")
def stage(
    stage: str, commit: str, limit_s: float | None = None, family: str = DIAGNOSIS.name
) -> Any:
    """Make `stage` of `commit` and send its result; earlier stages are restored, never made.

    Args:
        stage: its name; one of those this machine is for (variable PLUMBLINE_STAGES).
        commit: hash, branch or tag of the clone's origin.
        limit_s: seconds after which the stage is ended; no limit where None.
        family: whose stage it is, `diagnosis` or `restoration`.
    """
    allowed = stage_runner.own_stages()
    if allowed is not None and stage not in allowed:
        message = (
            f"{stage}: not a stage of this machine, which is for: {' '.join(allowed) or 'none'}"
        )
        return tasks.failed(
            StageFailedError(message, stage_runner.BAD_INPUT, key="stage.of_another_machine")
        )
    try:
        with alone():
            return _stage(stage, commit, limit_s, family_of(family))
    except StageFailedError as error:  # of checkout and family; those of steps are their states
        return tasks.failed(error)


def _stage(name: str, commit: str, limit_s: float | None, family: Family) -> Any:
    commit_state = tasks.take_commit(commit, return_state=True)
    if not commit_state.is_completed():
        return tasks.passed_on(commit_state)
    with inside(family):
        step_state = tasks.step_for_others(name, limit_s, return_state=True)
        if not step_state.is_completed():
            return tasks.passed_on(step_state)
        push_state = tasks.push([name], limit_s, return_state=True)
    return (
        Completed(message=f"{name}: {step_state.result()}")
        if push_state.is_completed()
        else tasks.passed_on(push_state)
    )
