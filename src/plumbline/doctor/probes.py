"""Ask programs and servers within a time limit, and state findings."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

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


importing = threading.Lock()
"""Two threads that load the same large libraries, which import one another in circles, may each get half of one."""
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


@dataclass(frozen=True)
class Ended:
    """Exit code and output of a program."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """Return the last line of output, where programs usually put the reason of a failure."""
        lines = [line.strip() for line in f"{self.out}\n{self.err}".splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.code}, without a word"

    @property
    def error(self) -> str:
        """Return DVC's error line: the one marked ERROR, else the first."""
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
        words,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )
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
    """Run Python code in its own process, so that a crash of a native library ends only that process."""
    return run(sys.executable, "-c", code, seconds=seconds)


def dvc(*words: str, seconds: float, folder: Path | None = None, **environment: str) -> Ended:
    """Run the DVC of this environment."""
    return run(
        sys.executable,
        "-m",
        "dvc",
        *words,
        seconds=seconds,
        folder=folder,
        environment=environment,
    )


def nearest(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    path = path.absolute()
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    return path


def unwritable(folder: Path) -> str | None:
    """Return why a file cannot be written in `folder` or its nearest parent; None after a successful trial."""
    place = nearest(folder)
    try:
        # Without a name, where the file system can: nothing is left behind even if this process is killed.
        with tempfile.TemporaryFile(dir=place) as stream:
            stream.write(b"plumbline doctor")
            stream.flush()
            os.fsync(stream.fileno())
            stream.seek(0)
            return None if stream.read() == b"plumbline doctor" else f"{place} gave back other bytes than were written"
    except OSError as error:
        return f"{place}: {error.strerror or error}"


def dvc_settings(seconds: float) -> dict[str, str]:
    """Return DVC's settings, merged from all its files, with absolute paths.

    Raises:
        OSError: DVC cannot read them.
        TimeoutError: it did not say so in time.
    """
    ended = dvc("config", "--list", seconds=seconds)
    if ended.code:
        raise OSError(f"`dvc config --list`: {ended.error}")
    pairs = (line.partition("=") for line in ended.out.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


SECONDS_TO_ANSWER = 5.0
"""A server that takes longer to say that it is well is not."""


def ask(url: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
    """GET an address, or POST `body` as JSON; return the JSON of the answer, or text where it is none.

    Raises:
        OSError: nobody answers, or with an error; the message says which.
        ValueError: it is no address of the web.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{url}: no address that begins with http:// or https://")
    sent = {"Accept": "application/json", **(headers or {})}
    if parts.username is not None:  # urllib takes a name and password in the address for a part of the host's name
        url = url.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1)
        if parts.password is not None:
            sent["Authorization"] = basic(f"{unquote(parts.username)}:{unquote(parts.password)}")
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        sent["Content-Type"] = "application/json"
    try:
        with urlopen(Request(url, data, sent), timeout=SECONDS_TO_ANSWER) as answer:  # noqa: S310  # the scheme was looked at
            text = answer.read().decode("utf-8", "replace")
    except HTTPError as error:
        raise OSError(f"HTTP status {error.code}, {error.reason}") from None
    try:
        return json.loads(text)
    except ValueError:
        return text


def basic(name_and_password: str) -> str:
    """Return the header of basic authentication (RFC 7617)."""
    return "Basic " + base64.b64encode(name_and_password.encode()).decode()


def prefect_api() -> tuple[str, dict[str, str]] | None:
    """Return the Prefect server's address and headers from the environment; None without a server."""
    url = os.environ.get("PREFECT_API_URL", "").rstrip("/")
    if not url:
        return None
    headers = {}
    if given := os.environ.get("PREFECT_API_AUTH_STRING"):  # where both are set, Prefect takes this one
        headers["Authorization"] = basic(given)
    elif key := os.environ.get("PREFECT_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    return url, headers
