"""Run the stage `simulate`: write labelled cities in the file formats of real products, on
any number of processes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from plumbline.core.console import log, track
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder
from plumbline.core.jobs import cores, processes
from plumbline.params import City, Simulate
from plumbline.params.load import read_yaml, validated
from plumbline.params.simulate import CITY_NAME, LENT, Borrowed
from plumbline.simulate.city import (
    TUNNELS,
    draw_site,
    join_parts,
    part_files,
    radius_jobs,
    tunnel_features,
    write_part,
)
from plumbline.simulate.site import Site, part_count, part_radius, slot_of_name

MapJobs = Callable[..., Iterator[Any]]
"""Function that calls another one for each job, as `map` does, with results in the jobs' order."""


@contextmanager
def _workers(count: int) -> Iterator[MapJobs]:
    """Yield a `map` over `count` processes; with one, over this process itself.

    Raises:
        PlumblineError: one was ended from outside.
    """
    if count == 1:
        yield map
        return
    with processes(count) as pool:
        yield pool.map


SHOWCASE = "showcase"
CITIES = "cities"
LABELS = "labels.csv"
TRUTH = "truth.csv"
PARTS_A_WORKER = 4
"""Smallest number of parts for which a process is worth starting."""


class _CityJob(NamedTuple):
    folder: Path
    name: str
    city: City
    labels: str


def simulate(params: Simulate, out: Path, workers: int | None = None) -> None:
    """Write `out/cities/NAME/` for each city and `out/showcase/`; replace `out` as a whole.

    Every folder holds an ascending and a descending EGMS L2b CSV, `footprints.geojson` and
    the labels: `labels.csv`, in the showcase `truth.csv`, which no stage before the
    comparison at the end reads. The showcase also has `tunnels.geojson`, a file of causes.
    The same parameters give the same bytes, whatever the number of workers. A city depends
    on its own parameters, its name and its number in the list only. Borrowed cities
    (`plumbline.simulate.borrowed.city`), also those from deliveries (`LENT`), are among the
    others, with the products that they have. They depend on their parameters, files and
    names alone.

    Args:
        params: section `simulate`.
        out: folder to write.
        workers: processes; as many as there are cores, unless given or the cities are
            small. More than one import the calling program's main module, which must not
            start work by that (`if __name__ == "__main__"`).

    Raises:
        InputError: the files or the name of a borrowed city are refused.
        OSError: `out` cannot be written.
    """
    with atomic_folder(out) as folder:
        jobs = [_CityJob(folder / SHOWCASE, SHOWCASE, params.showcase, TRUTH)]
        jobs += [
            _CityJob(folder / CITIES / name, name, city, LABELS)
            for name, city in params.cities.items()
        ]
        lent = {path.stem: _read_lent(path) for path in sorted(LENT.glob("*.yaml"))}
        if twice := lent.keys() & (params.cities.keys() | params.borrowed.keys()):
            raise InputError(
                f"{LENT / min(twice)}.yaml: section `simulate` has a city of that name. Rename "
                "either.",
                key="cities.repeated_name",
            )
        if (
            borrowed := params.borrowed | lent
        ):  # first, since their files may be refused, and nothing else may
            # Readers of all formats take a second to load, in each process, and invented
            # cities need none.
            from plumbline.simulate.borrowed.city import write_borrowed

            for name, about in borrowed.items():
                write_borrowed(
                    folder / CITIES,
                    name,
                    about,
                    slot_of_name(name),
                    damaged=params.damaged,
                    mechanisms=params.mechanisms,
                )
        with _workers(
            workers or _count_workers(sum(part_count(job.city.buildings) for job in jobs))
        ) as map_jobs:
            _write_cities(jobs, _draw_sites(jobs, params, map_jobs), map_jobs)


def _read_lent(path: Path) -> Borrowed:
    if not re.match(CITY_NAME, path.stem):
        raise InputError(
            f"{path}: the file's name is the key of a city, and {path.stem!r} has characters "
            "other than a to z, digits and _. Rename it and its folder.",
            key="cities.wrong_name",
        )
    return validated(Borrowed, read_yaml(path), str(path))


def _count_workers(parts: int) -> int:
    """Return the number of workers for `parts` parts: all cores, but fewer for little work."""
    return max(1, min(cores(), parts // PARTS_A_WORKER))


def _draw_sites(jobs: list[_CityJob], params: Simulate, map_jobs: MapJobs) -> list[Site]:
    """Draw the site of each city; for this, every part is planned once."""
    plans = [arguments for job in jobs for arguments in radius_jobs(job.name, job.city)]
    radii = track(map_jobs(part_radius, *zip(*plans, strict=True)), len(plans), "simulate: plans")
    radius = [max(islice(radii, part_count(job.city.buildings))) for job in jobs]
    return [
        draw_site(job.name, job.city, slot, radius[slot], params) for slot, job in enumerate(jobs)
    ]


def _write_cities(jobs: list[_CityJob], sites: list[Site], map_jobs: MapJobs) -> None:
    parts = [
        (site, number, part_files(job.folder, site, job.labels, number))
        for job, site in zip(jobs, sites, strict=True)
        for number in range(site.parts)
    ]
    for job in jobs:
        job.folder.mkdir(parents=True)
    points = track(map_jobs(write_part, *zip(*parts, strict=True)), len(parts), "simulate")
    for job, site in zip(jobs, sites, strict=True):
        began = time.monotonic()
        total = join_parts(job.folder, site, job.labels, islice(points, site.parts))
        if job.name == SHOWCASE:
            (job.folder / TUNNELS).write_text(tunnel_features(site), encoding="utf-8")
        log.info(
            "%s: %d buildings, %d points in %d and %d epochs, %.0f s",
            *(
                job.name,
                job.city.buildings,
                total,
                *(len(t.days) for t in site.tracks),
                time.monotonic() - began,
            ),
        )
