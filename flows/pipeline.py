"""Run the pipeline: every stage of `dvc.yaml` in order, the release behind the gate, and
the showcase map.

Run it with `python -m flows.pipeline` from the project's root: all of it here, as the
folder stands. It exits 0 for a released model, 2 for bad input, 3 for a gate that refused,
else 1. `PLUMBLINE_DASK=tcp://HOST:PORT` is the flow's parameter `dask`. The deployment of
prefect.yaml takes a commit and hands stages over to other pools.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flows.orchestration.embedded_server import begin_run

if __name__ == "__main__":
    begin_run()  # before Prefect is loaded below, which takes seconds

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.runtime import flow_run
from prefect.states import Completed
from rich.console import Console

from flows import report
from flows.orchestration import embedded_server, tasks
from flows.orchestration.run_records import close_leftover_runs
from flows.versioning import stage_runner
from flows.versioning.checkout import alone
from flows.versioning.families import DIAGNOSIS, Family, inside
from flows.versioning.stage_runner import StageFailedError


@flow(name="pipeline")
def pipeline(
    dask: str | None = None,
    commit: str | None = None,
    elsewhere: dict[str, str] | None = None,
    limit_s: float | None = None,
) -> Any:
    """Make, check and release a model; a failed run gives the reason in its state's message.

    Args:
        dask: address of a Dask scheduler, `tcp://HOST:PORT`, on whose workers the parts of
            files are read and the tiles prepared; they must see the project's folder.
            Without one, this machine's cores do it.
        commit: hash, branch or tag of the clone's origin (`HEAD`: the branch the origin is
            on) to take first; results then come from DVC's remote where it has them, and go
            there. None: the folder as it stands.
        elsewhere: stage -> FLOW/DEPLOYMENT that makes it on another pool; asks for a `commit`.
        limit_s: seconds that one stage may take before it is ended.
    """
    return run_alone(dask, commit, elsewhere, limit_s)


def run_alone(
    dask: str | None,
    commit: str | None,
    elsewhere: dict[str, str] | None,
    limit_s: float | None,
    family: Family = DIAGNOSIS,
) -> Any:
    """Call `run_stages` in a flow that locks the checkout."""
    if elsewhere and commit is None:
        reason = "elsewhere: other machines need a commit to take, and `commit` names none"
        return tasks.failed(StageFailedError(reason, stage_runner.BAD_INPUT, key="commit.missing"))
    try:
        with alone():
            close_leftover_runs(flow_run.id)
            return run_stages(dask, commit, elsewhere, limit_s, family)
    except StageFailedError as error:  # of `alone` and `inside`; those of steps are their states
        return tasks.failed(error)


def run_stages(
    dask: str | None,
    revision: str | None = None,
    elsewhere: Mapping[str, str] | None = None,
    limit_s: float | None = None,
    family: Family = DIAGNOSIS,
) -> Any:
    """Run all stages, the release and the showcase of a family, in a flow that holds the
    checkout; return a state.

    Raises:
        StageFailedError: the commit has no such family.
    """
    shared = revision is not None
    commit = ""
    if shared:
        commit_state = tasks.take_commit(revision, return_state=True)
        for state in (
            commit_state,
            tasks.ask_remote(return_state=True) if commit_state.is_completed() else commit_state,
        ):
            if not state.is_completed():
                return tasks.passed_on(state)
        commit = commit_state.result()
    with inside(family):
        state = _run_stages(family, dask, commit, elsewhere or {}, limit_s)
    if shared and state.is_completed():
        lock_state = tasks.publish_lock(
            f"Results of {family.name} at {commit[:12]}", return_state=True
        )
        return state if lock_state.is_completed() else tasks.passed_on(lock_state)
    return state


def _run_stages(
    family: Family,
    dask: str | None,
    commit: str,
    elsewhere: Mapping[str, str],
    limit_s: float | None,
) -> Any:
    shared = bool(commit)
    outcomes: dict[str, Any] = {}
    stale = stage_runner.stale(family.showcase)
    unchanged = True  # until the first stage that is not; what follows that one may depend on it
    for name in family.steps:
        if (
            name == "release" and shared
        ):  # a champion is announced once everybody can have its results
            sent = tasks.push(list(outcomes), limit_s, return_state=True)
            if not sent.is_completed():
                return tasks.passed_on(sent)
        unchanged = unchanged and name not in stale
        if name in elsewhere and not unchanged:
            finished = [stage for stage in outcomes if stage != "release"]
            state = tasks.step_elsewhere(
                name, elsewhere[name], commit, finished, limit_s, return_state=True
            )
        else:
            spread = dask if name in stage_runner.IN_PORTIONS and not unchanged else None
            skip = unchanged and name != "release"
            state = tasks.step(name, skip, spread, shared, limit_s, return_state=True)
        outcomes[name] = state.result(raise_on_failure=False)
        if not state.is_completed():
            return tasks.passed_on(state)
        if name == "gate":
            key = "gate" if family == DIAGNOSIS else f"gate-{family.name}"
            create_markdown_artifact(
                key=key, markdown=report.markdown(), description="Gate and figures"
            )
    champion = outcomes.pop("release")
    ran = [stage for stage, outcome in outcomes.items() if outcome == "ran"]
    summary = f"recomputed: {', '.join(ran)}" if ran else "nothing was recomputed"
    if shared:
        sent = tasks.push([family.showcase], limit_s, return_state=True)
        if not sent.is_completed():
            return tasks.passed_on(sent)
    return Completed(message=summary, data={"champion": champion, "summary": summary})


def main() -> int:
    """Run the flow here and now, print its outcome, return the exit code."""
    outputs = {"predictions": str(report.PREDICTIONS), "map": str(Path.cwd() / report.MAP)}
    return run_here(lambda: pipeline(os.environ.get("PLUMBLINE_DASK"), return_state=True), outputs)


def run_here(run: Callable[[], Any], outputs: Mapping[str, str], family: Family = DIAGNOSIS) -> int:
    """Run a flow here and now, print its outcome, return the exit code.

    Args:
        run: the flow. outputs: what to point to where it went well. family: of which the
            figures are.
    """
    console = Console()
    try:
        state = tasks.run_by_hand(run)
    except embedded_server.ServerFailedError as error:
        Console(stderr=True).print(str(error), markup=False, soft_wrap=True)
        return 1
    if state.is_completed():
        result: Any = state.result()
        closing = {"champion": result["champion"], **outputs, "this run": result["summary"]}
    else:
        closing = {"failed": state.message or "without a message"}
    try:
        with inside(family):
            report.show(console, {"gate": report.verdict(), **closing})
    except StageFailedError:  # there is no such folder, as the message says
        report.show(console, closing)
    return tasks.exit_code(state)


if __name__ == "__main__":
    sys.exit(main())
