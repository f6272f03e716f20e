"""Define the tasks of flows, and the states in which they end.

A step that fails returns a state and raises nothing: a traceback would hide the one line
there is to know. The state's name is the kind of failure; only `Unreachable`, which may go
well in a while, is tried again.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas import State
from prefect.states import Failed

from flows.orchestration import embedded_server, handover
from flows.orchestration.handover import EXIT_CODES, FAILED, STATE_NAMES, UNREACHABLE
from flows.versioning import clones, remote, stage_runner
from flows.versioning.stage_runner import NotRestoredError, Say, StageFailedError, UnreachableError
from plumbline.core.errors import PlumblineError

RETRY_DELAYS_S = [10.0, 60.0]
"""Seconds before the first and before the second retry of a step."""


def failed(error: PlumblineError) -> State[Any]:
    """Return the state of a step that failed with `error`."""
    name = (
        UNREACHABLE
        if isinstance(error, UnreachableError)
        else STATE_NAMES.get(error.exit_code, FAILED)
    )
    return Failed(name=name, message=str(error))


def passed_on(state: State[Any]) -> State[Any]:
    """Return a flow's state with the name and message of a step's; Prefect would only count
    the state itself."""
    return Failed(name=state.name, message=state.message)


def exit_code(state: State[Any]) -> int:
    """Return 0 for what completed, else the exit code of the state's name; 1 for any other name."""
    return 0 if state.is_completed() else EXIT_CODES.get(state.name or "", 1)


def run_by_hand(run: Callable[[], Any]) -> State[Any]:
    """Run a flow in this process, once the server answers; return its state.

    Raises:
        ServerFailedError: the embedded server does not.
    """
    # Prefect passes a termination on to this handler; the default one would leave the
    # embedded server behind.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    embedded_server.wait()
    return cast(State[Any], run())


def _may_go_well(_task: Any, _run: Any, state: State[Any]) -> bool:
    return state.name == UNREACHABLE


def _step(name: str, run_name: str = "") -> Callable[[Callable[..., Any]], Any]:
    """Make a task in which `StageFailedError` becomes a state; `run_name` may hold
    parameters in braces."""

    def decorate(do: Callable[..., Any]) -> Any:
        @wraps(do)
        def run_step(*arguments: Any, **named: Any) -> Any:
            try:
                return do(*arguments, **named)
            except StageFailedError as error:
                return failed(error)

        return task(
            name=name,
            task_run_name=run_name or name,
            cache_policy=NO_CACHE,
            retries=len(RETRY_DELAYS_S),
            retry_delay_seconds=RETRY_DELAYS_S,
            retry_condition_fn=_may_go_well,
        )(run_step)

    return decorate


@_step("step", "{name}")
def step(
    name: str,
    unchanged: bool = False,
    dask: str | None = None,
    pull: bool = False,
    limit_s: float | None = None,
) -> Any:
    """Run one step here. A stage returns how it came about, `release` the champion's version.

    A stage that is known to be `unchanged` is not asked about again: each question starts DVC anew.
    """
    say = get_run_logger().info
    if unchanged:
        say(f"Stage '{name}' didn't change")
        return "unchanged"
    if dask is not None:
        on_dask(name, dask, say)
    return (
        stage_runner.promote(say)
        if name == "release"
        else stage_runner.reproduce(name, say, pull=pull, limit_s=limit_s)
    )


@_step("step elsewhere", "{name}")
def step_elsewhere(
    name: str, deployment: str, commit: str, finished: list[str], limit_s: float | None = None
) -> stage_runner.Outcome:
    """Run one step on another machine, unless its result is known: send inputs, have it
    made, fetch the result."""
    say = get_run_logger().info
    try:
        outcome = stage_runner.reproduce(name, lambda _: None, pull=True, only=())
    except NotRestoredError:
        pass
    else:
        say(f"{name}: {outcome}")
        return outcome
    remote.push(finished, say, limit_s)
    outcome = handover.make(name, deployment, commit, say, limit_s)
    stage_runner.reproduce(name, say, pull=True, only=(), limit_s=limit_s)
    return outcome


def on_dask(stage: str, address: str, say: Say) -> None:
    """Do the portions of `stage`, or of `score`, on the cluster at `address` (its
    scheduler), if they must be done.

    Raises:
        StageFailedError: bad input, or a cluster that does not answer.
    """
    if stage != "score" and stage not in stage_runner.stale():
        return
    # The package's readers take seconds to load, and a run without a cluster has no need of
    # them here.
    from flows.orchestration import portions

    try:
        count = portions.on_dask(stage, address)
    except PlumblineError as error:
        raise StageFailedError(f"{stage}: {error}", error.exit_code, key=error.key) from error
    except OSError as error:
        reason = f"{stage}: no Dask scheduler answers at {address} ({error})."
        raise StageFailedError(reason, stage_runner.BAD_INPUT, key="dask.no_answer") from error
    say(f"{stage}: {count} portions done on {address}")


@_step("step for others", "{name}: restore and make")
def step_for_others(name: str, limit_s: float | None = None) -> stage_runner.Outcome:
    """Make one stage of this machine's, from the results of others."""
    return stage_runner.reproduce(
        name, get_run_logger().info, pull=True, only=(name,), limit_s=limit_s
    )


@_step("take commit", "take commit {revision}")
def take_commit(revision: str) -> str:
    """Check out a commit in this clone; return its full hash."""
    commit = clones.take(revision)
    get_run_logger().info("On commit %s", commit)
    return commit


@_step("ask DVC's remote")
def ask_remote() -> None:
    """Check that results can be fetched and sent."""
    remote.check(get_run_logger().info)


@_step("push")
def push(finished: list[str], limit_s: float | None = None) -> None:
    """Send the results."""
    remote.push(finished, get_run_logger().info, limit_s)


@_step("publish lock")
def publish_lock(subject: str) -> None:
    """Commit what DVC locked to the branch of results of the origin, where it accepts that."""
    get_run_logger().info(clones.publish_lock(subject))
