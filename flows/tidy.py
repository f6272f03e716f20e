"""Remove what a system piles up over months; docs/operations/retention.md lists what stays.

Run it with `python -m flows.tidy [--dry-run]` from the project's root. It exits 0, 2 for
bad input, else 1; a checkout in which a run is at work is left alone, and that is no
failure.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.states import Completed

from flows.orchestration import run_records, tasks
from flows.versioning import clones, stage_runner
from flows.versioning.checkout import RWLOCK, TIDYING, CheckoutBusyError, alone
from flows.versioning.families import FAMILIES, RESTORATION
from flows.versioning.process import TookTooLongError
from flows.versioning.stage_runner import Say, StageFailedError, UnreachableError
from plumbline.core.errors import PlumblineError
from plumbline.params import Tidy, load_params
from plumbline.params.load import load_restoration

MIB = 2**20
PARAMS = "params.yaml"
LIMIT_S = 1800.0
"""Largest number of seconds that tidying one cache may take."""


@dataclass
class Report:
    """Outcome of each part."""

    told: list[str] = field(default_factory=list)
    failures: list[StageFailedError] = field(default_factory=list)

    def part(self, do: Callable[[], str]) -> None:
        """Run one part; if it fails, the others go on."""
        try:
            if summary := do():
                self.told.append(summary)
        except StageFailedError as error:
            self.failures.append(error)
        except (OSError, ValueError) as error:  # a file that cannot be removed, say
            self.failures.append(
                StageFailedError(f"{type(error).__name__}: {error}", 1, key="tidy.failed")
            )


@flow(name="tidy")
def tidy(dry_run: bool = False) -> Any:
    """Tidy the project's folder, the clones of this machine's workers, the registry, and
    Prefect's records.

    Args:
        dry_run: remove nothing; say what would go.
    """
    try:
        settings = load_params().tidy
    except PlumblineError as error:
        return tasks.failed(error)
    say = get_run_logger().info
    report = Report()
    with contextlib.ExitStack() as locks:
        places, busy = _hold(locks)
        report.part(lambda: f"registry {stage_runner.tidy_registry(say, dry_run)}")
        if (RESTORATION.folder / PARAMS).is_file():
            report.part(lambda: _fields(say, dry_run))
        report.part(lambda: _caches(settings, places, dry_run))
        report.part(lambda: _folders(settings, places, dry_run))
    report.part(
        lambda: f"{run_records.cut_logs(int(settings.log_mib * MIB), dry_run)} bytes of logs"
    )
    if busy:
        report.told.append(f"left alone, a run is at work: {', '.join(path.name for path in busy)}")
    summary = f"{'would go' if dry_run else 'gone'}: {'; '.join(report.told)}"
    if report.failures:
        reasons = "; ".join(str(error) for error in report.failures)
        return tasks.failed(
            StageFailedError(
                f"{reasons} ({summary})", report.failures[0].exit_code, key=report.failures[0].key
            )
        )
    return Completed(message=summary)


def _hold(locks: contextlib.ExitStack) -> tuple[list[Path], list[Path]]:
    """Lock this folder and the clones of its workers for the stack's lifetime; return the
    locked and the busy ones."""
    places, busy = [], []
    for place in (Path.cwd(), *(path.resolve() for path in clones.provided())):
        try:
            lock = contextlib.ExitStack()
            lock.enter_context(alone(place, TIDYING))
        except CheckoutBusyError:
            busy.append(place)
            continue
        if (
            place / RWLOCK
        ).exists():  # `alone` has removed that of a dead one: somebody works with DVC by hand
            lock.close()
            busy.append(place)
            continue
        locks.enter_context(lock)
        places.append(place)
    return places, busy


def _caches(settings: Tidy, places: list[Path], dry_run: bool) -> str:
    """Tidy DVC's caches: here, all that a commit names stays; in a clone, what its newest
    commits name."""
    newest = ["--all-branches", "--num", str(settings.runs), "--all-tags"]
    dry = ["--dry"] if dry_run else []
    counts = [
        _collect(
            place,
            ["--all-experiments", *(["--all-commits"] if place == Path.cwd() else newest), *dry],
        )
        for place in places
        if (place / ".dvc").is_dir()
    ]
    return f"{sum(counts)} objects of DVC" if counts else ""


def _collect(place: Path, options: list[str]) -> int:
    """Remove unneeded objects from the cache of a checkout by `dvc gc`; return their number.

    A cache outside of the checkout may be shared with other projects, and is left alone.

    Raises:
        StageFailedError: DVC cannot read the project, or takes too long.
    """
    lines: list[str] = []
    try:
        code = stage_runner.run_dvc(["--cd", str(place), "cache", "dir"], lines.append)
        if code == 0 and not Path(lines[-1]).resolve().is_relative_to(place.resolve()):
            return 0
        command = ["--cd", str(place), "gc", "--force", *options]
        code = code or stage_runner.run_dvc(command, lines.append, limit_s=LIMIT_S)
    except TookTooLongError as error:
        raise UnreachableError(
            f"tidying DVC's cache of {place}: {error}", key="dvc_cache.too_long"
        ) from error
    if code:
        raise StageFailedError(
            f"DVC's cache of {place} was not tidied: {lines[-1] if lines else code}",
            1,
            key="dvc_cache.not_tidied",
        )
    return sum(int(count) for count in re.findall(r"Removed (\d+) objects", "\n".join(lines)))


def _fields(say: Say, dry_run: bool) -> str:
    """Tidy the packages of the other family in the same registry, by the same settings."""
    try:
        name = load_restoration(RESTORATION.folder / PARAMS).package.name
    except PlumblineError as error:
        raise StageFailedError(str(error), error.exit_code, key=error.key) from error
    return f"registry of {name} {stage_runner.tidy_registry(say, dry_run, name)}"


def _folders(settings: Tidy, places: list[Path], dry_run: bool) -> str:
    here = Path.cwd()
    size = sum(
        run_records.clear_folders(
            place / family.folder, settings.days, dry_run, clone=place != here
        )
        for place in places
        for family in FAMILIES.values()
    )
    return f"{size} bytes in .plumbline"


def main(arguments: list[str]) -> int:
    """Run the flow here and now, return the exit code."""
    if arguments not in ([], ["--dry-run"]):
        sys.stderr.write("usage: python -m flows.tidy [--dry-run]\n")
        return stage_runner.BAD_INPUT
    state = tasks.run_by_hand(lambda: tidy(bool(arguments), return_state=True))
    sys.stdout.write(f"{state.message}\n")
    return tasks.exit_code(state)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
