"""What `make run` costs after the installation: seconds of CPU, stage by stage.

`python -m benchmarks.pipeline [STAGE...]`, in an installed clone. Computes each stage anew, which changes dvc.lock.
Then it runs the flow over what is up to date: server, DVC's checks and the release. All processes of a step count. A
plain loop of ten million steps is timed before each step: loops are the unit that compares machines. Other work on the
machine makes a stage dearer, and the loop hardly. Prints Markdown.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.common import head, line, parse, parser, stamp
from flows.versioning.stage_runner import SHOWCASE, STAGES

FLOW = "flow, checks and release"
LOOP_STEPS = 10_000_000
LOOPS = 3
"""Number of loops before each step, of which the shortest counts."""


def loop_s() -> float:
    """Return the CPU time of the plain loop."""
    times = []
    for _ in range(LOOPS):
        start_s, total = time.process_time(), 0
        for i in range(LOOP_STEPS):
            total += i * i
        times.append(time.process_time() - start_s)
    return min(times)


def children_cpu_s() -> float:
    """Return the CPU time, user and system, of all ended processes that this one started."""
    times = os.times()
    return times.children_user + times.children_system


def measure(command: Sequence[str]) -> tuple[float, float]:
    """Run a command; return its CPU time and its time on the clock, s."""
    # Without kept bytecode, each stage would compile the same libraries.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before_s, start_s = children_cpu_s(), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return children_cpu_s() - before_s, time.perf_counter() - start_s


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    stages = [*STAGES, SHOWCASE]
    asked = parser("pipeline", __doc__)
    asked.add_argument("stages", nargs="*", metavar="STAGE", help="stages to compute; all, and the flow, by default")
    options = parse(asked, argv)
    if unknown := set(options.stages) - set(stages):
        asked.error(f"no such stage: {', '.join(sorted(unknown))}")
    steps = {
        name: [sys.executable, "-m", "dvc", "repro", "--force", "--single-item", name]
        for name in options.stages or stages
    }
    if not options.stages:
        steps[FLOW] = [sys.executable, "-m", "flows.pipeline"]
    if options.smoke:
        steps = {"nothing": [sys.executable, "-c", "pass"]}
    print(f"{stamp()}\n\n{head('stage', 'CPU s', 'loops', 's')}", flush=True)
    totals = [0.0, 0.0, 0.0]
    for name, command in steps.items():
        unit_s = loop_s()
        cpu_s, clock_s = measure(command)
        totals = [total + value for total, value in zip(totals, (cpu_s, cpu_s / unit_s, clock_s), strict=True)]
        print(line(name, f"{cpu_s:.1f}", f"{cpu_s / unit_s:.0f}", f"{clock_s:.0f}"), flush=True)
    print(line("**all**", *(f"{total:.0f}" for total in totals)))


if __name__ == "__main__":
    main()
