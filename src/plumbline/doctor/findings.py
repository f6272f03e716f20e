"""Report what a check found, and run the programs that checks need."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

SECONDS = 60.0
"""Longest time that a program may run."""


class CheckState(StrEnum):
    """State of what was checked, from best to worst."""

    NOTHING = "not applicable"
    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True)
class Finding:
    """One result of a check."""

    state: CheckState
    found: str
    mend: str = ""
    """Text that says what to do; empty for `ok` and `not applicable`."""


Check = Callable[[], Iterator[Finding]]
"""Function that yields at least one finding on the installation or the working directory."""


def nothing(found: str) -> Finding:
    """Return a finding for something that is absent and need not be checked."""
    return Finding(CheckState.NOTHING, found)


def ok(found: str) -> Finding:
    """Return a finding for something that is in order."""
    return Finding(CheckState.OK, found)


def warning(found: str, mend: str) -> Finding:
    """Return a finding for something that works, but should be corrected."""
    return Finding(CheckState.WARNING, found, mend)


def fault(found: str, mend: str) -> Finding:
    """Return a finding for something that does not work, or will fail."""
    return Finding(CheckState.FAULT, found, mend)


@dataclass(frozen=True)
class ProgramOutput:
    """Exit code and output of a program that ended."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """Return the last line of output, in which programs usually write why they failed."""
        lines = [line.strip() for line in f"{self.out}\n{self.err}".splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.code}, without a word"


def run(*words: str) -> ProgramOutput:
    """Run a program to its end.

    Raises:
        subprocess.TimeoutExpired: it did not end within `SECONDS`, and was killed.
        OSError: there is no such program.
    """
    process = subprocess.run(
        words,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=SECONDS,
    )
    return ProgramOutput(process.returncode, process.stdout, process.stderr)


def python(code: str) -> ProgramOutput:
    """Run Python code in its own process, so that a crash of a native library ends only
    that process."""
    return run(sys.executable, "-c", code)
