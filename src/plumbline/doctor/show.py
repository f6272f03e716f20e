"""The findings as a table, as lines, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from plumbline.doctor.examine import Result
from plumbline.doctor.finding import State

STYLES = {State.OK: "green", State.NOTHING: "dim", State.WARNING: "yellow", State.FAULT: "bold red"}


def table(results: Sequence[Result]) -> Table:
    """A row a finding."""
    made = Table("check", "", "found", "what to do")
    for result in results:
        for number, item in enumerate(result.findings):
            name = "" if number else result.name
            made.add_row(name, Text(item.state, STYLES[item.state]), Text(item.found), Text(item.mend))
    return made


def lines(results: Sequence[Result]) -> Iterator[str]:
    """A line a finding: state, check, what was found, what to do."""
    for result in results:
        for item in result.findings:
            yield f"{item.state}: {result.name}: {item.found}{' -> ' + item.mend if item.mend else ''}"


def document(results: Sequence[Result]) -> dict[str, Any]:
    """All of it, for programs."""
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
    """How many findings are faults."""
    return sum(item.state is State.FAULT for result in results for item in result.findings)
