"""Define a finding: its state, what was found, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

LEAST_FREE = 2**30
"""Bytes that shall be free on every disk, whatever a run needs."""


class State(StrEnum):
    """State of what was checked, from best to worst."""

    NOTHING = "not applicable"
    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True)
class Finding:
    """One result of a check."""

    state: State
    found: str
    mend: str = ""
    """What to do; empty where nothing is to be done."""


@dataclass(frozen=True)
class Place:
    """Settings of the checks. They examine the working directory, as every command does."""

    commands: frozenset[str]
    """Names that `plumbline` has a command for."""
    seconds: float = 60.0
    """Time that one check may take."""
    free_bytes: int = LEAST_FREE
    """Bytes that shall be free on every disk."""


Check = Callable[[Place], Iterator[Finding]]
"""Says all it finds, at least one thing; what it raises is reported as a fault of this check alone."""


def nothing(found: str) -> Finding:
    """Return a finding for something that is absent and need not be checked."""
    return Finding(State.NOTHING, found)


def ok(found: str) -> Finding:
    """Return a finding for something that is in order."""
    return Finding(State.OK, found)


def warning(found: str, mend: str) -> Finding:
    """Return a finding for something that works, but should be corrected."""
    return Finding(State.WARNING, found, mend)


def fault(found: str, mend: str) -> Finding:
    """Return a finding for something that does not work, or will fail."""
    return Finding(State.FAULT, found, mend)


def size(count: float) -> str:
    """Format a number of bytes for people."""
    if count < 1000:
        return f"{count:.0f} bytes"
    power = min(int(math.log10(count)) // 3, 3)
    return f"{count / 1000**power:.1f} {('', 'kB', 'MB', 'GB')[power]}"
