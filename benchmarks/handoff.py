"""What the hand-off of one stage between two pools costs, from the question to the result, and where it goes.

`python -m benchmarks.handoff [TIMES]`: a real system of `make up` with a clone for each worker and a folder as DVC's
remote, on stages that take no time and weigh a few bytes; what is left is the hand-off itself. Prints Markdown;
`docs/benchmarks` keeps dated copies.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.common import head, line, parse, parser, stamp
from tests.flows.conftest import make_project
from tests.flows.orchestration.test_system import SYSTEM, System, free_port

MOST_S = 10.0
STAGE = "train"


def when(text: str) -> float:
    """Seconds of a date of the API."""
    return datetime.fromisoformat(text).timestamp()


def hand_off(system: System, number: int) -> dict[str, float]:
    """Have the stage made anew by the other pool: what of it took how many seconds."""
    system.project.behave(**{STAGE: {"number": number}})
    run = system.ended(system.start("pipeline/nightly", commit=system.project.commit()))
    if run["state"]["type"] != "COMPLETED":
        sys.exit(f"The run ended as {run['state']}:\n" + "\n".join(system.said(run["id"])))
    asked = task(system, run, STAGE)
    there = system.ask("/flow_runs/filter", flow_runs={"name": {"any_": [STAGE]}}, sort="START_TIME_DESC")[0]
    states = {state["type"]: when(state["timestamp"]) for state in states_of(system, there)}
    begin, end = when(asked["start_time"]), when(asked["end_time"])
    parts = {
        "is the result known? send the inputs": states["SCHEDULED"] - begin,
        "the worker hears of it": states["PENDING"] - states["SCHEDULED"],
        "its flow starts": states["RUNNING"] - states["PENDING"],
    }
    steps = {each["name"]: each["total_run_time"] for each in tasks(system, there)}
    parts |= {"take commit" if "commit" in name else name: steps[name] for name in sorted(steps)}
    parts["between these"] = states["COMPLETED"] - states["RUNNING"] - sum(steps.values())
    parts["take the result back"] = end - states["COMPLETED"]
    parts["all"] = end - begin
    return parts


def states_of(system: System, run: Any) -> list[Any]:
    """All states that a run was in."""
    found: list[Any] = system.call("GET", f"/flow_run_states/?flow_run_id={run['id']}")
    return found


def tasks(system: System, run: Any) -> list[Any]:
    """The steps of a run."""
    found: list[Any] = system.ask("/task_runs/filter", flow_runs={"id": {"any_": [run["id"]]}})
    return found


def task(system: System, run: Any, name: str) -> Any:
    """One step of a run."""
    return next(each for each in tasks(system, run) if each["name"] == name)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("handoff", __doc__)
    asked.add_argument("times", type=int, nargs="?", default=3)
    times = parse(asked, argv, times=1).times
    os.environ.pop("SHELL", None)  # as tests/flows does: /bin/sh runs the stages
    with tempfile.TemporaryDirectory() as scratch:
        system = System(make_project(Path(scratch)), free_port())
        code, said = system.project.run(*SYSTEM, "up", timeout_s=800)
        try:
            if code:
                sys.exit(said)
            # The first run makes every stage; what it takes is no hand-off.
            seen = [hand_off(system, number) for number in range(times + 1)][1:]
        finally:
            system.project.run(*SYSTEM, "down", timeout_s=300)
    print("# A stage handed over to another pool\n\nMade by `python -m benchmarks.handoff`; nothing else running.\n")
    print(f"{stamp()}, median of {times}\n")
    print(head("", "s", "bar"))
    for name in seen[0]:
        bar = f"at most {MOST_S:g} s" if name == "all" else ""
        print(line(name, f"{statistics.median(parts[name] for parts in seen):.1f}", bar))


if __name__ == "__main__":
    main()
