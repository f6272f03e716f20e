"""`make soak`: small scheduled pipelines back to back on a real system, tidied in between.

`python -m benchmarks.soak [--runs 200] [--folder .plumbline/soak]` goes on in a folder where it was interrupted. A line
a run on the way, the page in Markdown at the end. It fails where a run is not completed, a process or an unfinished run
is left, the champion is not the last package, a promised roll-back fails, or memory or disk of the last quarter of the
runs exceed their bound. `--smoke` makes four runs in a folder that goes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common import commit, parse, parser
from benchmarks.soak.project import Stand, make_stand
from benchmarks.soak.report import bounds, disk, figures, memory, page
from plumbline.export.package import verify_package
from plumbline.release.promotion import rollback
from plumbline.release.registry import Registry
from tests.chaos.machines import Broken
from tests.flows.orchestration.test_system import SYSTEM, free_port

FORMER = 3
TIDY = {"former_champions": FORMER, "packages": 2, "runs": 3, "log_mib": 0.1, "remote": True}
PATIENCE_S = 3600.0
"""For a system to come up: a busy machine needs many minutes for the tables of Prefect's database."""
ROWS, PORT = "rows.jsonl", "port"


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; 0 where all of it holds."""
    asked = parser("soak", __doc__)
    asked.add_argument("--runs", type=int, default=200)
    asked.add_argument("--tidy-every", type=int, default=5, help="runs between two tidyings")
    asked.add_argument("--keep-minutes", type=float, default=20.0, help="age from which records go, in place of days")
    asked.add_argument("--folder", type=Path, default=Path(".plumbline/soak"))
    given = parse(asked, argv, runs=4, tidy_every=2, folder=None)  # a tidying in the second quarter, and in the last
    with tempfile.TemporaryDirectory() as scratch:
        return soak(given, (given.folder or Path(scratch) / "soak").resolve())


def soak(given: argparse.Namespace, folder: Path) -> int:
    """Run it in a folder."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # and take the system down on the way
    system = _system(folder, given.keep_minutes)
    try:
        code, said = system.project.run(*SYSTEM, "up", timeout_s=PATIENCE_S)
        _assert(code == 0, said)
        rows = _run(system, given.runs, given.tidy_every)
        _nothing_is_left(system)
    finally:
        system.project.run(*SYSTEM, "down", timeout_s=300)
    _assert(not system.processes(), f"processes are left: {system.processes()}")
    _assert(not _inside(folder), f"processes are left in the folder: {_inside(folder)}")
    _champions(folder, rows[-1]["package"])
    sys.stdout.write(page(rows, given.runs, _about(given)))
    broken = [f"{one.name}: {one.last:g}, at most {one.most:.0f}" for one in bounds(rows, given.runs) if not one.holds]
    _assert(not broken, f"not bounded: {'; '.join(broken)}")
    return 0


def _system(folder: Path, keep_minutes: float) -> Broken:
    """The project's system, of a soak before where there is one."""
    if (folder / PORT).exists():
        stand, port = Stand(folder / "project"), int((folder / PORT).read_text())
    else:
        tidy = TIDY | {"days": keep_minutes / 1440}
        stand, port = make_stand(folder / "project", tidy), free_port()
        (folder / PORT).write_text(str(port))
    # The project's own code only by way of its command line; whatever DVC keeps outside counts too. What a server does
    # in a week and an hour is to be seen within the soak.
    stand.environment |= {
        "DVC_SITE_CACHE_DIR": str(folder / "project/site"),
        "PYTHONPATH": "",
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": f"PT{round(keep_minutes * 60)}S",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_LOOP_SECONDS": "120",
    }
    stand.environment.pop("MLFLOW_TRACKING_URI", None)
    (folder / "project/.git/info/exclude").write_text("/site/\n")
    return Broken(stand, port)


def _run(system: Broken, runs: int, tidy_every: int) -> list[dict[str, Any]]:
    stand, kept = system.project, system.project.folder.parent / ROWS
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    first = len(rows) + 1
    for number in range(first, runs + 1):
        begin = time.monotonic()
        stand.change(number)
        found = system.ended(system.start("pipeline/nightly", commit="HEAD"))
        state = found["state"]
        told = f"run {number}: {state['name']}: {state['message']}"
        # The first run after an interruption may find that the one which was cut had made everything.
        made = "recomputed: " in state["message"] or number == first > 1
        _assert(state["type"] == "COMPLETED" and made, told)
        row = {"run": number, "seconds": round(time.monotonic() - begin, 1), "tidied": number % tidy_every == 0}
        if row["tidied"]:
            begin = time.monotonic()
            found = system.ended(system.start("tidy/tidy"))
            _assert(found["state"]["type"] == "COMPLETED", f"tidy: {found['state']['message']}")
            row |= {"tidying_s": round(time.monotonic() - begin, 1), "tidy": found["state"]["message"]}
        system.everything_is_quiet()
        manifest = json.loads((system.home("cpu") / "data/package/manifest.json").read_text())
        row |= {"memory": memory(system), "disk": disk(stand.folder), "package": manifest["version"]}
        rows.append(row)
        with kept.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        shown = ", ".join(f"{name} {value:g}" for name, value in figures(row).items())
        sys.stderr.write(f"{told} ({row['seconds']:.0f} s); {shown}; {row.get('tidy', '')}\n")
    return rows


def _nothing_is_left(system: Broken) -> None:
    """No run waits, or says that it is at work."""
    system.everything_is_quiet()
    late = system.ask("/flow_runs/filter", flow_runs={"state": {"name": {"any_": ["Late", "AwaitingConcurrencySlot"]}}})
    _assert(not late, f"runs wait: {[run['name'] for run in late]}")


def _champions(folder: Path, version: str) -> None:
    """The champion is the last package, and those before it can be gone back to."""
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    registry = Registry(uri=f"sqlite:///{folder / 'project/mlflow.db'}")
    champion = registry.champion()
    _assert(champion is not None and champion.version == version, f"the champion is {champion}, not {version}")
    reached = min(FORMER, len(registry.history()))
    for _ in range(reached):
        done = rollback(registry=registry)
        verify_package(registry.folder(done.champion))
    sys.stderr.write(f"{reached} roll-backs work\n")


def _inside(folder: Path) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


def _about(given: argparse.Namespace) -> str:
    return (
        f"`python -m benchmarks.soak --runs {given.runs}`, {datetime.now(UTC):%Y-%m-%d}, commit "
        f"{commit()}, {psutil.cpu_count()} CPU cores, Python {platform.python_version()}. Each run takes "
        f"a commit that changes one stage, computes it and what follows, releases a package, and pushes. Tidied every "
        f"{given.tidy_every} runs: the champion, {FORMER} before it, {TIDY['packages']} packages and {TIDY['runs']} "
        f"results a stage stay, in DVC's remote too; records of runs and Prefect's events of {given.keep_minutes:g} "
        "minutes."
    )


def _assert(holds: bool, told: str) -> None:
    if not holds:
        raise SystemExit(told)


if __name__ == "__main__":
    sys.exit(main())
