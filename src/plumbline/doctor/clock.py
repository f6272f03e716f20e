"""Check the clock against the newest files, against servers, and by the system's own report."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path

from plumbline.doctor.finding import Finding, Place, fault, ok, warning
from plumbline.doctor.probes import ask, files, mlflow_headers, prefect_api, run

SECONDS = 60.0
"""A difference that schedules, heartbeats and leases stand."""
WRITTEN = (Path(".dvc/cache"), Path("mlflow.db"), Path("mlartifacts"), Path("data"), Path(".plumbline"))
SET = "Let the system set it: `timedatectl set-ntp true`, or its chrony."


def check_clock(place: Place) -> Iterator[Finding]:
    """Check the clock against file dates and servers, and whether the system synchronises it."""
    wrong = False
    for finding in (*_files(), *_time_servers(), *_system(place.seconds)):
        wrong = True
        yield finding
    if not wrong:
        yield ok(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC, and no file is of the future")


def _files() -> Iterator[Finding]:
    newest, when = None, time.time() + SECONDS
    for folder in WRITTEN:
        for path, about in files(folder, seconds=2.0):
            if about.st_mtime > when:
                newest, when = path, about.st_mtime
    if newest is not None:
        yield warning(
            f"{newest} was written {_long(when - time.time())} from now: the clock is behind, or was ahead",
            f"{SET} Once it is right, `touch` the files of the future.",
        )


def _time_servers() -> Iterator[Finding]:
    addresses = {}
    if api := prefect_api():
        addresses["Prefect server"] = (f"{api[0]}/health", api[1])
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    if uri.startswith("http"):
        addresses["MLflow server"] = (f"{uri.rstrip('/')}/health", mlflow_headers())
    for name, (url, headers) in addresses.items():
        try:
            said = ask(url, headers=headers).headers.get("date")
        except (OSError, ValueError):
            continue  # told of by the checks of the servers
        if said is None:
            continue
        apart = time.time() - parsedate_to_datetime(said).timestamp()
        if abs(apart) > SECONDS:
            way = "ahead of" if apart > 0 else "behind"
            yield fault(f"{_long(abs(apart))} {way} the {name}", f"{SET} On both machines.")


def _system(seconds: float) -> Iterator[Finding]:
    """Report a clock that the system does not synchronise. A container has no `timedatectl`: check its host."""
    if shutil.which("timedatectl") is None:
        return
    ended = run("timedatectl", "show", "--property=NTPSynchronized", "--value", seconds=seconds)
    if ended.code == 0 and ended.out.strip() == "no":
        yield warning("the system's clock is not synchronised with a time server", SET)


def _long(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"
