"""Other programs, asked with a time limit: DVC, git, nvidia-smi, and Python where a library may crash the process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line it wrote, where programs say why they fail."""
        lines = [line.strip() for line in f"{self.out}\n{self.err}".splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.code}, without a word"

    @property
    def error(self) -> str:
        """The line that DVC says what failed in: the one marked so, else the first."""
        # DVC shows the place in a file below its message, so the last line would say nothing.
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        named = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        return next(iter([*named, *lines]), self.last)


def run(*words: str, seconds: float, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> Ended:
    """Run a program to its end.

    Raises:
        TimeoutError: it did not end in time; it and what it started were killed.
        OSError: there is no such program.
    """
    process = subprocess.Popen(
        words, cwd=folder, env={**os.environ, **(environment or {})}, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"`{' '.join(words[:4])}` did not end within {seconds:.0f} s") from None
    finally:
        # Its children too: one that holds the pipe would be waited for without end.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return Ended(process.returncode, out, err)


def python(code: str, seconds: float) -> Ended:
    """Run Python code in a process of its own: a native library that crashes ends that one alone."""
    return run(sys.executable, "-c", code, seconds=seconds)


def dvc(*words: str, seconds: float, folder: Path | None = None, **environment: str) -> Ended:
    """Run DVC, that of this environment."""
    return run(
        sys.executable, "-m", "dvc", *words, seconds=seconds, folder=folder,
        environment={"DVC_NO_ANALYTICS": "true", **environment},
    )  # fmt: skip
