"""Look at the source once, judge what is new, set aside what cannot be read."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError, NotWritable, PlumblineError
from plumbline.core.files import report_write_errors, sha256_path, write_json
from plumbline.core.jobs import alone, clear
from plumbline.export.package import open_package
from plumbline.params import Params
from plumbline.serve.map.page import check_page
from plumbline.serve.score.alarms import update_alarms
from plumbline.serve.score.deliveries import Delivery, find_deliveries
from plumbline.serve.score.drift import shadow
from plumbline.serve.score.messages import places_with_results
from plumbline.serve.score.publish import publish
from plumbline.serve.score.results import ASIDE, LOOKS, MANIFEST, note_latest, now, read_record
from plumbline.serve.score.rules import check_rules
from plumbline.serve.score.tiles import (
    STAGE,
    code_hash,
    cut_tiles,
    judge_delivery,
    judge_tiles,
    plan_reading,
    read,
)
from plumbline.sources.city.causes import CausesFile, read_causes

MACHINE_ERRORS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.ESTALE,
    errno.ETIMEDOUT,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EROFS,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENOTCONN,
}
"""Error numbers of a disk, a network or a memory. The delivery is not at fault, and the
next run may succeed."""


def is_machine_error(error: BaseException | None) -> bool:
    """Return whether an error has one of `MACHINE_ERRORS` or is a failed write, even if
    wrapped by a reader."""
    visited: set[int] = set()
    while error is not None and id(error) not in visited:
        if isinstance(error, NotWritable) or (
            isinstance(error, OSError) and error.errno in MACHINE_ERRORS
        ):
            return True
        visited.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def set_aside(delivery: Delivery, error: InputError, params: Params) -> None:
    """Record why a delivery cannot be judged; its files stay where they are."""
    record = {
        "format": 1,
        "place": delivery.place,
        "delivery": delivery.name,
        "id": delivery.id,
        "reason": str(error),
        "inputs": delivery.files,
        "tried_with": _hash_settings(delivery, params),
        "made": now(),
    }
    write_json(_aside_path(delivery, params), record)


def is_aside(delivery: Delivery, params: Params) -> bool:
    """Return whether these files were tried with this code and these settings, and could
    not be judged."""
    record = read_record(_aside_path(delivery, params), "tried_with")
    return record is not None and bool(record["tried_with"] == _hash_settings(delivery, params))


def _aside_path(delivery: Delivery, params: Params) -> Path:
    return params.score.out / ASIDE / delivery.place / f"{delivery.result}.json"


def _hash_settings(delivery: Delivery, params: Params) -> str:
    """Hash everything that may be mended to make the delivery readable."""
    footprints = params.score.footprints.get(delivery.place)
    content = [
        params.ingest.model_dump(mode="json"),
        code_hash(),
        sha256_path(footprints) if footprints else None,
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


@dataclass
class Outcome:
    """Outcome of a look; `PLACE/FOLDER` of each delivery."""

    published: list[str] = field(default_factory=list)
    aside: dict[str, str] = field(default_factory=dict)
    """Deliveries that were set aside, each with the reason."""
    failed: dict[str, str] = field(default_factory=dict)
    """Deliveries and places that failed by a fault of Plumbline or of this machine, each
    with the error."""


def score(
    params: Params, find_models: Callable[[], tuple[Path, Path | None]], workers: int | None = None
) -> Outcome:
    """Judge every new complete delivery, in order of name, and publish its result.

    What a killed run has finished of a delivery is not done again. A delivery that cannot
    be judged is set aside, and the next one follows. One that has changed meanwhile is left
    for the next time.

    Args:
        params: sections `score` and `ingest`.
        find_models: gives the model package, which does not change during the run, and
            perhaps another one, whose answers are recorded and never published, see
            `shadow`. Asked only where there is something to judge: before the first
            release, without a delivery, nothing is wrong.
        workers: processes; None: one a core, or one where there is little to do.

    Raises:
        InputError: the source, the package or a place's footprints are not there; another
            process is at it; or the disk refused. The deliveries are not at fault, and none
            is set aside for it.
        OSError: likewise.
    """
    with alone(STAGE):
        check_settings(params)
        outcome = Outcome()
        deliveries, damaged = new_deliveries(params)
        outcome.failed |= damaged
        if deliveries:
            package, challenger = find_models()
            open_package(package)
            for delivery in deliveries:
                _judge(
                    delivery,
                    params,
                    package,
                    challenger=challenger,
                    workers=workers,
                    outcome=outcome,
                )
        for place in places_with_results(params.score.out):
            if place not in outcome.failed:
                with (
                    _note_failure(place, outcome, "alarms were not derived"),
                    report_write_errors(params.score.out / place, disk_alone=True),
                ):
                    update_alarms(params, place)
        return outcome


def check_settings(params: Params) -> None:
    """Refuse wrong settings, before they make a delivery fail.

    Raises:
        InputError: a place's footprints or causes are not there, the page of the map was
            not built, or as `check_rules`.
    """
    check_page()
    check_rules(params)
    for place, path in params.score.footprints.items():
        if not path.exists():
            raise InputError(
                f"score.footprints.{place}: no file {path} found. Correct the path in params.yaml.",
                key="file.missing",
            )
    for place in params.score.causes:
        read_place_causes(params, place)


def read_place_causes(params: Params, place: str) -> CausesFile | None:
    """Return the causes of damage at a place; None without a file.

    Raises:
        InputError: as `read_causes`.
    """
    path = params.score.causes.get(place)
    try:
        return None if path is None else read_causes(path, params.ingest.footprints)
    except InputError as error:
        raise InputError(f"score.causes.{place}: {error}", key=error.key) from None


def new_deliveries(params: Params) -> tuple[list[Delivery], dict[str, str]]:
    """Return complete deliveries without a result that were not set aside, and places with
    a damaged result.

    Each damaged place comes with its error. Its deliveries cannot be compared, so the place
    waits until somebody mends it, and the others go on.

    Raises:
        InputError: the source is no folder, or the disk refused.
    """
    section = params.score
    section.out.mkdir(parents=True, exist_ok=True)
    outcome = Outcome()
    deliveries = find_deliveries(section, section.out / LOOKS)
    for place in sorted({delivery.place for delivery in deliveries}):
        with _note_failure(place, outcome, "left for the next time"):
            note_latest(section.out, place)
    pending = [
        delivery
        for delivery in deliveries
        if delivery.place not in outcome.failed
        and not (section.out / delivery.place / delivery.result / MANIFEST).is_file()
        and not is_aside(delivery, params)
    ]
    return pending, outcome.failed


def _judge(
    delivery: Delivery,
    params: Params,
    package: Path,
    *,
    challenger: Path | None,
    workers: int | None,
    outcome: Outcome,
) -> None:
    """Judge and publish a delivery, or set it aside; note the outcome in `outcome`."""
    name = f"{delivery.place}/{delivery.result}"
    log.info("%s: %d files, %s", name, len(delivery.files), delivery.folder)
    with _note_failure(name, outcome):
        refusal = None
        try:
            reading = plan_reading(delivery, params.score.footprints, params.ingest)
            read(reading, workers)
            tiles = cut_tiles(reading, package)
            judge_tiles(tiles, workers)
        except InputError as error:
            if is_machine_error(error):
                raise
            refusal = error
        if not delivery.unchanged():
            warn(
                "%s: has changed meanwhile, left for the next time",
                delivery.folder,
                key="delivery.changed_meanwhile",
            )
            return
        if refusal is not None:
            outcome.aside[name] = str(refusal)
            set_aside(delivery, refusal, params)
            log.error("%s: set aside: %s", name, refusal)
            return
    if name in outcome.failed:
        return
    with _note_failure(name, outcome, "judged, and not published"):
        causes = read_place_causes(params, delivery.place)
        judged = judge_delivery(reading, tiles, params.score, causes)
        if challenger is not None:
            shadow(reading, judged, challenger, workers=workers, params=params.score, causes=causes)
        publish(reading, tiles, judged, params.score, causes)
        _aside_path(delivery, params).unlink(missing_ok=True)
        note_latest(params.score.out, delivery.place)
        clear(reading.work)
        outcome.published.append(name)


@contextmanager
def _note_failure(name: str, outcome: Outcome, state: str = "") -> Iterator[None]:
    """Note in `outcome` an error of a place or a delivery, so that the others go on; it is
    tried again.

    Args:
        name: of the place or delivery. state: state in which an error leaves it; empty if
            the error is enough.

    Raises:
        NotWritable: the disk refused; the message names the file or folder.
        InputError, OSError, PlumblineError, MemoryError: the error is of this machine.
    """
    try:
        yield
    except Exception as error:
        is_contained = isinstance(error, InputError) or not isinstance(
            error, PlumblineError | MemoryError
        )
        if is_machine_error(error) and state and isinstance(error, InputError):
            kind = NotWritable if isinstance(error, NotWritable) else PlumblineError
            raise kind(f"{name}: {state}: {error}", key=error.key) from error
        if is_machine_error(error) or not is_contained:
            raise
        is_bug = not isinstance(error, InputError)
        outcome.failed[name] = f"{type(error).__name__}: {error}" if is_bug else f"{state}: {error}"
        log.error(
            "%s: %s",
            name,
            "failed" if is_bug else outcome.failed[name],
            exc_info=error if is_bug else None,
        )
