"""Run the portions of a stage as mapped tasks on a Dask cluster: parts of files to ingest, tiles to prepare or judge.

DVC stays the one that makes the stage: what is done here lies in `.plumbline`, where the stage's own process finds its
portions finished and only puts them together. The cluster's workers must see the project's folder under its path.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task, unmapped
from prefect.cache_policies import NO_CACHE
from prefect_dask.task_runners import DaskTaskRunner

from plumbline.core.errors import InputError
from plumbline.core.jobs import AnyJob, alone
from plumbline.params import load_params
from plumbline.prepare.stage import plan_tiles
from plumbline.prepare.tiles import write_tile
from plumbline.release.resolve import resolve_model
from plumbline.serve.score.run import check_settings, new_deliveries, plan_delivery
from plumbline.serve.score.tiles import STAGE, cut_tiles, judge_tile, read, read_footprints
from plumbline.sources.city.files import city_folders
from plumbline.sources.city.parts import plan_parts, read_part

DATA = Path("data")


@task(retries=1, cache_policy=NO_CACHE, task_run_name="{job.folder.name}")
def portion(job: AnyJob, work: Any) -> None:
    """Do one portion, unless its result exists."""
    if not job.folder.exists():
        work(job)


@flow(name="portions")
def portions(stage: str, params: Path = Path("params.yaml")) -> int:
    """Do all portions of `ingest` or `prepare`; return their number.

    Raises:
        InputError: bad input, as the stage itself would say; or that is at work here, and would clear them away.
    """
    settings = load_params(params)
    jobs: list[Any]
    with alone(stage):
        if stage == "ingest":
            jobs, work = plan_parts(city_folders(DATA), settings.ingest).parts, read_part
        else:
            jobs, work = plan_tiles(DATA / "ingest", settings.prepare).tiles, write_tile  # type: ignore[assignment]
        portion.map(jobs, unmapped(work)).result()
    return len(jobs)


def on_dask(stage: str, address: str) -> int:
    """Do the portions of a stage on the Dask cluster at `address` (its scheduler); return their number.

    Raises:
        InputError: as `portions`.
        OSError: no scheduler answers there.
    """
    runner: Any = DaskTaskRunner(address=address)
    done: int = portions.with_options(task_runner=runner)(stage)
    return done


@flow(name="tiles")
def tiles(model: str = "champion", params: Path = Path("params.yaml")) -> int:
    """Judge the tiles of all new deliveries; return their number.

    Errors of a delivery are reported by `plumbline score`, which puts the tiles together.

    Raises:
        InputError: the settings are wrong, or the registry does not answer.
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
                reading = plan_delivery(delivery, settings)
                portion.map(read_footprints(reading), unmapped(read_part)).result()
                read(reading, 1)
                cut = cut_tiles(reading, package)
                portion.map(cut, unmapped(judge_tile)).result()
            except InputError as error:
                get_run_logger().warning("%s: left to be set aside: %s", delivery.folder, error)
                continue
            count += len(cut)
    return count


def score_on_dask(address: str, model: str = "champion") -> int:
    """Judge the tiles of new deliveries on the Dask cluster at `address` (its scheduler); return their number.

    Raises:
        InputError: as `tiles`.
        OSError: no scheduler answers there.
    """
    runner: Any = DaskTaskRunner(address=address)
    done: int = tiles.with_options(task_runner=runner)(model)
    return done
