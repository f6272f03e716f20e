"""Start processes that outlive their command, and stop exactly these, with all their children.

A process number alone proves nothing, since it may have gone to another process. One that
leads a service is known by its number and the tick it was started at; its children,
whatever became of their parents, by a token in their environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

FOLDER = Path(".plumbline/system")
RECORD = FOLDER / "record.json"
MARK = "PLUMBLINE_SYSTEM"
SECONDS_TO_END = 15.0


@dataclass(frozen=True)
class Service:
    """A started process: name, number, and start in ticks since boot."""

    name: str
    pid: int
    started: int

    @property
    def alive(self) -> bool:
        """Return whether this very process still runs."""
        return _started(self.pid) == self.started


@dataclass
class Record:
    """Services started here, kept in a file from before the first start until after the last
    end."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    boot: str = field(default_factory=lambda: _boot())
    services: list[Service] = field(default_factory=list)

    def write(self) -> None:
        """Replace the file."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        new = RECORD.with_suffix(".new")
        new.write_text(json.dumps(asdict(self), indent=2), encoding="utf-8")
        new.replace(RECORD)

    def alive(self) -> dict[str, Service]:
        """Return the services that still run, by name."""
        return {service.name: service for service in self.services if service.alive}

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> Service:
        """Start a command in a new session; it writes into a log of its name. It replaces
        an ended one."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        with log_of(name).open("ab") as log:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **environment, MARK: f"{self.token} {name}"},
            )
        service = Service(name, process.pid, _started(process.pid) or 0)
        self.services = [s for s in self.services if s.name != name] + [service]
        self.write()
        return service

    def end(self, name: str) -> None:
        """Ask a service to end, and wait a while."""
        if service := self.alive().get(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(service.pid, signal.SIGTERM)
            until = time.monotonic() + SECONDS_TO_END
            while service.alive and time.monotonic() < until:
                time.sleep(0.1)

    def variables(self, variable: str, *names: str) -> set[str]:
        """Return the values of an environment variable in processes that these services started."""
        marks = {f"{self.token} {name}" for name in names}
        values = set()
        for process in _marked(marks):
            with contextlib.suppress(psutil.Error, OSError):
                values.add(process.environ().get(variable))
        return {value for value in values if value}

    def end_children(self, *names: str) -> None:
        """Kill the services of these names and everything they started, until all of it is gone."""
        marks = {f"{self.token} {name}" for name in names}
        while processes := list(_marked(marks)):
            for process in processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            time.sleep(0.1)

    def forget(self, *names: str) -> None:
        """Remove ended services from the record; remove the record with the last one."""
        self.services = [service for service in self.services if service.name not in names]
        if self.services:
            self.write()
        else:
            RECORD.unlink(missing_ok=True)


def read_record() -> Record | None:
    """Return the services that were started here and not stopped; None without any since
    the machine booted."""
    try:
        content: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
        record = Record(
            **content | {"services": [Service(**service) for service in content["services"]]}
        )
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    return record if record.boot == _boot() else None


def log_of(name: str) -> Path:
    """Return the log file of a service."""
    return FOLDER / f"{name}.log"


def _marked(marks: set[str]) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) in marks and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def _started(pid: int) -> int | None:
    """Return the ticks from boot to the start of a running process: unlike a date, they do
    not move with the clock."""
    try:
        words = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()
        )
    except OSError:
        return None
    return None if words[0] == "Z" else int(words[19])


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
