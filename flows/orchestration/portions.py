"""Run the portions of a stage as mapped tasks on a Dask cluster: parts of files to ingest,
tiles to prepare or judge.

DVC stays the one that makes the stage: what is done here lies in `.plumbline`, where the
stage's own process finds its portions finished and only puts them together. The cluster's
workers must see the project's folder under its path, work in it, and run its source code:
what they write is filed under that code.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from prefect import flow, get_run_logger, task, unmapped
from prefect.cache_policies import NO_CACHE
from prefect_dask.task_runners import DaskTaskRunner

from plumbline.core.errors import InputError, PlumblineError
from plumbline.core.files import sha256_folder
from plumbline.core.jobs import ONE_THREAD, AnyJob, alone
from plumbline.core.source_code import PYTHON_PACKAGE
from plumbline.params import load_params
from plumbline.prepare.stage import plan_tiles
from plumbline.prepare.tiles import write_tile
from plumbline.release.resolve import resolve_model
from plumbline.serve.score.run import check_settings, new_deliveries
from plumbline.serve.score.tiles import (
    STAGE,
    cut_tiles,
    judge_tile,
    plan_reading,
    read,
    read_footprints,
)
from plumbline.sources.city.files import city_folders
from plumbline.sources.city.parts import plan_parts, read_part

DATA = Path("data")


class RunPlace(NamedTuple):
    """Folder in which a run works, and its source code: those of each worker must be the same."""

    folder: Path
    code: str
    """SHA-256 of the package's modules."""


class ForeignWorkerError(PlumblineError):
    """Report a worker of the cluster that is not in the place of the run; deliveries are
    not set aside for it."""

    exit_code = 2


@cache
def source_hash() -> str:
    """Return the SHA-256 of the modules of the package that runs in this process, as they
    are at the first call."""
    return sha256_folder(PYTHON_PACKAGE, "*.py")


def place_here() -> RunPlace:
    """Return the place of this process."""
    return RunPlace(Path.cwd(), source_hash())


def check_worker(place: RunPlace) -> None:
    """Refuse to work in another place than the run that asks for it.

    Args:
        place: that of the run.

    Raises:
        ForeignWorkerError: this worker has another folder or other code, or its linear
            algebra uses several threads.
    """
    worker = f"Dask worker {os.getpid()} on {os.uname().nodename}"
    if Path.cwd() != place.folder:
        raise ForeignWorkerError(
            f"{worker} works in {Path.cwd()}. Start it in {place.folder}, the folder of the run.",
            key="worker.other_folder",
        )
    if source_hash() != place.code:
        raise ForeignWorkerError(
            f"{worker} runs other source code than the run: {PYTHON_PACKAGE}. Put it on the same "
            "commit, and start it again.",
            key="worker.other_code",
        )
    if several := [name for name in ONE_THREAD if os.environ.get(name) != "1"]:
        raise ForeignWorkerError(
            f"{worker}: {several[0]} is {os.environ.get(several[0])}, and 1 is needed: else sums "
            "depend on the "
            "machine. Export it, and start the worker again.",
            key="worker.other_threads",
        )


@task(retries=1, cache_policy=NO_CACHE, task_run_name="{job.folder.name}")
def portion(job: AnyJob, work: Any, place: RunPlace) -> None:
    """Do one portion, unless its result exists."""
    check_worker(place)
    if not job.folder.exists():
        work(job)


@flow(name="portions")
def portions(stage: str, params: Path = Path("params.yaml")) -> int:
    """Do all portions of `ingest` or `prepare`; return their number.

    Raises:
        InputError: bad input, as the stage itself would say; or that is at work here, and
            would clear them away.
        ForeignWorkerError: a worker is in another place.
    """
    settings = load_params(params)
    jobs: list[Any]
    with alone(stage):
        if stage == "ingest":
            jobs, work = plan_parts(city_folders(DATA), settings.ingest).parts, read_part
        else:
            jobs, work = plan_tiles(DATA / "ingest", settings.prepare).tiles, write_tile  # type: ignore[assignment]
        portion.map(jobs, unmapped(work), unmapped(place_here())).result()
    return len(jobs)


@flow(name="tiles")
def tiles(model: str = "champion", params: Path = Path("params.yaml")) -> int:
    """Judge the tiles of all new deliveries; return their number.

    Errors of a delivery are reported by `plumbline score`, which puts the tiles together.

    Raises:
        InputError: the settings are wrong, or the registry does not answer.
        ForeignWorkerError: a worker is in another place.
    """
    settings = load_params(params)
    count = 0
    with alone(STAGE):
        check_settings(settings)
        deliveries, _ = new_deliveries(settings)
        if not deliveries:
            return 0  # before the first release there is no champion, and nothing to ask it
        package = resolve_model(model, settings.package.name).resolve()
        for delivery in deliveries:
            try:
                reading = plan_reading(delivery, settings.score.footprints, settings.ingest)
                portion.map(
                    read_footprints(reading), unmapped(read_part), unmapped(place_here())
                ).result()
                read(reading, 1)
                cut = cut_tiles(reading, package)
                portion.map(cut, unmapped(judge_tile), unmapped(place_here())).result()
            except InputError as error:
                get_run_logger().warning("%s: left to be set aside: %s", delivery.folder, error)
                continue
            count += len(cut)
    return count


def on_dask(stage: str, address: str) -> int:
    """Do the portions of `ingest`, `prepare` or `score` on the Dask cluster at `address`;
    return their number.

    Args:
        address: that of its scheduler, `tcp://HOST:PORT`.

    Raises:
        InputError, ForeignWorkerError: as `portions` and `tiles`.
        OSError: no scheduler answers there.
    """
    runner: Any = DaskTaskRunner(address=address)
    return (
        tiles.with_options(task_runner=runner)()
        if stage == "score"
        else portions.with_options(task_runner=runner)(stage)
    )
