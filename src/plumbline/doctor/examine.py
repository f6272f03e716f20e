"""Run all checks at once, each in a thread with a time limit, and show the findings as a table, lines or JSON."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from rich.table import Table
from rich.text import Text

from plumbline.core.console import hidden
from plumbline.doctor import installation, machine, project, servers
from plumbline.doctor.probes import Check, Finding, Place, State, fault

CHECKS: Mapping[str, Check] = {
    "python": installation.check_python,
    "extras": installation.check_extras,
    "onnxruntime": installation.check_onnxruntime,
    "gpu": installation.check_gpu,
    "package": project.check_package,
    "params.yaml": project.check_params,
    "dvc.yaml": project.check_graph,
    "checkout": project.check_checkout,
    "dvc remote": servers.check_remote,
    "registry": servers.check_registry,
    "prefect": servers.check_server,
    "disk": machine.check_disk,
    "locks": machine.check_locks,
    "leftovers": machine.check_leftovers,
}
"""In the order in which they are shown: what the others rest on comes first."""


@dataclass
class Result:
    """Findings of one check."""

    name: str
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def state(self) -> State:
        """Return the worst state of the findings."""
        return max((item.state for item in self.findings), key=list(State).index)


def examine(place: Place, checks: Mapping[str, Check] = CHECKS) -> list[Result]:
    """Run `checks` in parallel. A check that raises, times out or finds nothing becomes a fault; the others go on."""
    results = [Result(name) for name in checks]
    # Daemons: a thread cannot be ended, and one that hangs shall not keep the command from ending.
    threads = [
        threading.Thread(target=_run, args=(check, place, result), daemon=True)
        for check, result in zip(checks.values(), results, strict=True)
    ]
    started = time.monotonic()
    with _parsing_in_threads():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, started + place.seconds - time.monotonic()))
    done = []
    for thread, result in zip(threads, results, strict=True):
        # A copy, because a check that comes too late still writes into its own.
        said = replace(result, findings=[_shown(item) for item in result.findings])
        if thread.is_alive():
            said.seconds = time.monotonic() - started
            said.findings.append(
                fault(
                    f"did not end within {place.seconds:.0f} s",
                    "Run again with more time (`--seconds`) where the machine is busy; else look for what does not "
                    "answer.",
                )
            )
        done.append(said)
    return done


@contextmanager
def _parsing_in_threads() -> Iterator[None]:
    """Pause Python's cycle collector where threads cannot parse Python code at once: before Python 3.11.8.

    What checks import parses code while it loads, and so does what reads version markers. The parser keeps one count of
    its depth for all threads. Only the collector can make it give way to another thread in between, which ends in
    "SystemError: AST constructor recursion depth mismatch" (python/cpython#106905).
    """
    pause = sys.version_info < (3, 11, 8) and gc.isenabled()
    if pause:
        gc.disable()
    try:
        yield
    finally:
        if pause:
            gc.enable()


def _run(check: Check, place: Place, result: Result) -> None:
    started = time.monotonic()
    try:
        for finding in check(place):
            result.findings.append(finding)
        if not result.findings:
            raise AssertionError("the check said nothing")
    except Exception as error:
        told = " ".join(str(error).split()) or "no message"
        result.findings.append(
            fault(
                f"the check itself failed: {type(error).__name__}: {told}",
                "Mend what the message names; if it names nothing of yours, report it as a bug.",
            )
        )
    result.seconds = time.monotonic() - started


def _shown(finding: Finding) -> Finding:
    return replace(finding, found=hidden(finding.found), mend=hidden(finding.mend))


STYLES = {State.OK: "green", State.NOTHING: "dim", State.WARNING: "yellow", State.FAULT: "bold red"}


def table(results: Sequence[Result]) -> Table:
    """Return a table with one row per finding."""
    made = Table("check", "", "found", "what to do")
    for result in results:
        for number, item in enumerate(result.findings):
            name = "" if number else result.name
            made.add_row(name, Text(item.state, STYLES[item.state]), Text(item.found), Text(item.mend))
    return made


def lines(results: Sequence[Result]) -> Iterator[str]:
    """Yield one line per finding: state, check, what was found, what to do."""
    for result in results:
        for item in result.findings:
            yield f"{item.state}: {result.name}: {item.found}{' -> ' + item.mend if item.mend else ''}"


def document(results: Sequence[Result]) -> dict[str, Any]:
    """Return the findings as a JSON document, for programs."""
    return {
        "faults": faults(results),
        "checks": [
            {
                "check": result.name,
                "state": result.state.value,
                "seconds": round(result.seconds, 2),
                "findings": [
                    {"state": item.state.value, "found": item.found, "mend": item.mend} for item in result.findings
                ],
            }
            for result in results
        ],
    }


def faults(results: Sequence[Result]) -> int:
    """Count the findings that are faults."""
    return sum(item.state is State.FAULT for result in results for item in result.findings)
