"""Run one stage through DVC, and the release, and report each outcome in words that help to act."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from flows import report
from flows.versioning import process
from flows.versioning.process import TookTooLongError
from plumbline.core.errors import PlumblineError

STAGES = (
    *("simulate", "ingest", "prepare", "train", "compress", "export"),
    *("validate", "gate", "approve", "package"),
)
SHOWCASE = "predict"
"""The stage that shows what the released model does; that of another family:
`families.Family.showcase`."""
IN_PORTIONS = ("ingest", "prepare")
"""Stages whose work can be spread over a cluster."""
PACKAGE = Path("data/package")
BAD_INPUT, REFUSED = 2, 3
UNREACHABLE = 75
"""Exit code of `flows.versioning.remote` where DVC's remote does not answer: EX_TEMPFAIL of
sysexits.h, which DVC does not use."""
OWN_STAGES = "PLUMBLINE_STAGES"
"""Variable that names the stages a machine is for; under DVC, the command line of a stage
refuses any other."""

Say = Callable[[str], None]
Outcome = Literal["ran", "restored", "unchanged"]

# What DVC prints after every stage about git and pushing: true, but no news in a log of
# nine stages.
_CHATTER = re.compile(
    r"\s*$|Updating lock file|Generating lock file|To track the changes|\tgit add|To enable auto "
    r"staging"
    r"|\tdvc config core.autostage|Use `dvc push`|Data and pipelines are up to date"
)
_EXITED = re.compile(r"exited with (-?\d+)")
_RUNNING = re.compile(r"Running stage '([^']+)'")


class StageFailedError(PlumblineError):
    """A stage failed; `exit_code` is 2 for bad input, 3 for a gate that refused, else 1."""

    def __init__(self, message: str, exit_code: int | None = None, *, key: str = "") -> None:
        super().__init__(message, key=key)
        self.exit_code = exit_code or self.exit_code


class UnreachableError(StageFailedError):
    """Something on the network did not answer, or a machine was lost: a later try may succeed."""


class NotRestoredError(StageFailedError):
    """The result of another machine was not found, and is not made here instead."""

    exit_code = BAD_INPUT


def own_stages() -> tuple[str, ...] | None:
    """Return the stages of this machine, or None for all."""
    told = os.environ.get(OWN_STAGES)
    return None if told is None else tuple(told.split())


def run_dvc(
    arguments: Sequence[str],
    say: Say,
    *,
    program: str = "dvc",
    limit_s: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run DVC, or the `program` that calls it, with these arguments; return its exit
    status, as `process.run` does."""
    return process.run(
        [sys.executable, "-m", program, *arguments], say, limit_s=limit_s, environment=environment
    )


def stale(showcase: str = SHOWCASE) -> frozenset[str]:
    """Return the names of changed stages, or all if DVC fails; stages after them are not
    included."""
    lines: list[str] = []
    # By name: else it would look at the stages of all folders.
    if run_dvc(["status", "--json", *STAGES, showcase], lines.append) == 0:
        with contextlib.suppress(IndexError, ValueError):
            return frozenset(json.loads(lines[-1]))
    return frozenset((*STAGES, showcase))


def reproduce(
    stage: str,
    say: Say,
    *,
    pull: bool = False,
    only: Collection[str] | None = None,
    limit_s: float | None = None,
) -> Outcome:
    """Bring `stage` up to date with `dvc repro`; pass its output on as it comes.

    Args:
        stage: its name.
        say: is told what it and DVC print.
        pull: take from the remote what others have made. It is asked first, in DVC's own process.
        only: the stages that may be computed here. With it, also what comes before `stage`
            is restored; without it `stage` alone is looked at.
        limit_s: seconds after which it is ended.

    Raises:
        NotRestoredError: a stage that is not in `only` would have to be computed.
        UnreachableError: with `pull`, the remote does not answer.
        StageFailedError: the stage, or DVC, exited with another status than 0, or took
            longer than `limit_s`.
    """
    lines: list[str] = []
    options = [*(["--pull"] if pull else []), *(["--single-item"] if only is None else [])]
    environment = {} if only is None else {OWN_STAGES: " ".join(only)}
    program, command = ("flows.versioning.remote", ["dvc", "repro"]) if pull else ("dvc", ["repro"])
    environment |= process.path_to_flows() if pull else {}
    try:
        code = run_dvc(
            [*command, *options, stage],
            keeping(lines, say),
            program=program,
            limit_s=limit_s,
            environment=environment,
        )
    except TookTooLongError as error:
        raise StageFailedError(
            f"{stage}: {error}. Finished stages are kept.", 1, key="stage.too_long"
        ) from error
    if code == UNREACHABLE:
        raise UnreachableError(
            lines[-1] if lines else "DVC's remote does not answer", key="remote.no_answer"
        )
    if code:
        begun = [match[1] for line in lines if (match := _RUNNING.match(line))]
        if only is not None and begun and begun[-1] not in only:
            raise NotRestoredError(
                f"{stage}: the result of {begun[-1]} is not in DVC's remote, and this machine "
                "does not make it. "
                f"Run {begun[-1]} where it belongs and `dvc push --run-cache` there.",
                key="result.not_in_remote",
            )
        raise _failure(stage, code, lines)
    if any(line.startswith(f"Running stage '{stage}'") for line in lines):
        return "ran"
    return "restored" if any("is cached - skipping run" in line for line in lines) else "unchanged"


def promote(say: Say) -> str:
    """Make the package the champion with `plumbline release promote`; return its version.

    Raises:
        StageFailedError: the registry does not answer, the package is damaged, or the
            champion is better.
    """
    lines: list[str] = []
    code = process.run(
        [sys.executable, "-m", "plumbline", "release", "promote", str(PACKAGE)], keeping(lines, say)
    )
    if code:
        raise _failure("release", code, lines)
    return report.version_of(PACKAGE)


def tidy_registry(say: Say, dry_run: bool, name: str | None = None) -> str:
    """Remove old packages with `plumbline release tidy`; return its summary.

    Args:
        say: is told what it prints. dry_run: nothing is removed. name: of a registered
            model; None: this project's.

    Raises:
        StageFailedError: the registry does not answer.
    """
    lines: list[str] = []
    options = [*(["--dry-run"] if dry_run else []), *(["--name", name] if name else [])]
    code = process.run(
        [sys.executable, "-m", "plumbline", "release", "tidy", *options], keeping(lines, say)
    )
    if code:
        raise _failure("release tidy", code, lines)
    return lines[-1].removeprefix("INFO ") if lines else "nothing said"


def keeping(lines: list[str], say: Say) -> Say:
    """Pass on and keep all lines except chatter."""

    def keep(line: str) -> None:
        if not _CHATTER.match(line):
            lines.append(line)
            say(line)

    return keep


def _failure(stage: str, code: int, lines: list[str]) -> StageFailedError:
    """Return the failure with the stage's own exit status, which DVC gives in words, and
    its last line as message."""
    for number, line in enumerate(lines):
        # A stage that was killed may not have ended its line.
        unfinished, failed, ending = line.partition("ERROR: failed to reproduce")
        if failed and (exited := _EXITED.search(ending)):
            code = int(exited[1])
            lines = [*lines[:number], *([unfinished] if unfinished else [])]
            break
    last = lines[-1].removeprefix("ERROR ") if lines else "no output"
    if code == REFUSED:
        rules = report.failed_rules() if stage == "approve" else []
        reason = (
            f"{'; '.join(rules)}. What was packaged last stays in {PACKAGE}." if rules else last
        )
        return StageFailedError(f"{stage} refused: {reason}", REFUSED, key="stage.refused")
    if code == BAD_INPUT:
        return StageFailedError(f"{stage}: {last}", BAD_INPUT, key="stage.bad_input")
    if code < 0:
        return StageFailedError(
            f"{stage} was killed by signal {-code}. Run again: finished stages are kept.",
            1,
            key="stage.killed",
        )
    return StageFailedError(
        f"{stage} failed with exit status {code}: {last}", 1, key="stage.failed"
    )
