"""The pipeline: every stage of `dvc.yaml` in order, the release behind the gate, and the showcase map.

Run it with `python -m flows.pipeline` from the project's root. It exits 0 for a released model, 2 for bad input,
3 for a gate that refused, else 1. `PLUMBLINE_DASK=tcp://HOST:PORT` is the flow's parameter `dask`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, cast

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas import State
from prefect.states import Completed, Failed
from rich.console import Console

from flows import report, stages
from flows.checkout import CheckoutBusyError, alone
from flows.leftovers import end_leftover_server, remember_server
from flows.stages import StageFailedError


@task(retries=0, cache_policy=NO_CACHE, task_run_name="{name}")
def step(name: str, unchanged: bool = False, dask: str | None = None) -> Any:
    """Take one step. A stage results in how it came about, `release` in the champion's version.

    A stage that is known to be `unchanged` is not asked about again: each question starts DVC anew.
    """
    say = get_run_logger().info
    if unchanged:
        say(f"Stage '{name}' didn't change")
        return "unchanged"
    try:
        if dask is not None:
            stages.on_dask(name, dask, say)
        return stages.promote(say) if name == "release" else stages.reproduce(name, say)
    except StageFailedError as error:
        # A returned state, unlike an exception, ends the run without a traceback: the message is all there is to know.
        return Failed(message=str(error), data=error.exit_code)


@flow(name="pipeline")
def pipeline(dask: str | None = None) -> Any:
    """Make, check and release a model; a run that fails says why in its state's message.

    Args:
        dask: address of a Dask scheduler, `tcp://HOST:PORT`, on whose workers the parts of files are read and the
            tiles prepared; they must see the project's folder. Without one, this machine's cores do it.
    """
    try:
        with alone():
            remember_server()
            return run_stages(dask)
    except CheckoutBusyError as error:
        return Failed(message=str(error), data=stages.BAD_INPUT)


def run_stages(dask: str | None) -> Any:
    """All stages, the release and the showcase, in a flow that owns the checkout; results in a state."""
    outcomes: dict[str, Any] = {}
    stale = stages.stale()
    unchanged = True  # until the first stage that is not; what follows that one may depend on it
    for name in (*stages.STAGES, "release", "predict"):
        unchanged = unchanged and name not in stale
        spread = dask if name in stages.IN_PORTIONS and not unchanged else None
        state = step.with_options(name=name)(name, unchanged and name != "release", spread, return_state=True)
        outcomes[name] = state.result(raise_on_failure=False)
        if not state.is_completed():
            return Failed(message=state.message, data=_exit_code(outcomes[name]))
        if name == "validate":
            create_markdown_artifact(key="gate", markdown=report.markdown(), description="Gate and figures")
    champion = outcomes.pop("release")
    ran = [stage for stage, outcome in outcomes.items() if outcome == "ran"]
    told = f"recomputed: {', '.join(ran)}" if ran else "nothing was recomputed"
    return Completed(message=told, data={"champion": champion, "told": told})


def main() -> int:
    """Run the flow here and now, print what came of it, return the exit code."""
    console = Console()
    try:
        with alone():
            end_leftover_server()  # and a busy checkout is told of before the embedded server starts, seconds later
    except CheckoutBusyError as error:
        Console(stderr=True).print(str(error), markup=False, soft_wrap=True)
        return stages.BAD_INPUT
    # Prefect passes a termination on to this handler; the default one would leave the embedded server behind.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    state = cast(State[Any], pipeline(os.environ.get("PLUMBLINE_DASK"), return_state=True))
    result: Any = state.result(raise_on_failure=False)
    if not state.is_completed():
        report.show(console, {"gate": report.verdict(), "failed": state.message or "without a message"})
        return _exit_code(result)
    closing = {
        "gate": report.verdict(),
        "champion": result["champion"],
        "predictions": str(report.PREDICTIONS),
        "map": str(Path.cwd() / report.MAP),
        "this run": result["told"],
    }
    report.show(console, closing)
    return 0


def _exit_code(result: Any) -> int:
    """A failed step hands over its exit code; anything else is an exception nobody expected."""
    return result if isinstance(result, int) else 1


if __name__ == "__main__":
    sys.exit(main())
