"""The stage `ingest`: city folders of product files -> points, buildings and labels tables, by tile."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from plumbline.console import log, track
from plumbline.files import atomic_file, atomic_folder, read_json
from plumbline.jobs import alone, clear, cores, remove, run_jobs, undone
from plumbline.params import Ingest
from plumbline.sources.assemble import CITY, assemble
from plumbline.sources.city import read_city
from plumbline.sources.part import IDENTITY, PART, REPEATED, read_part
from plumbline.sources.plan import STAGE, Plan, cut_parts
from plumbline.sources.points import repeats
from plumbline.sources.profile_city import place_profiles, read_profile_city

WORTHWHILE_BYTES = 2**30
"""Less than this is read in threads before other processes have loaded their libraries."""


def ingest(cities: Sequence[Path], params: Ingest, out: Path, workers: int | None = None) -> None:
    """Read city folders into `out/CITY/{points,halo,buildings,labels}/TILE…` and `out/CITY/city.json`.

    A city folder holds point products, one file of footprints and `labels.csv`; or profile rows alone, which become
    `out/CITY/profiles.parquet`. Products are read part by part, in
    several processes, in bounded memory; parts that an interrupted run has finished are not read again. `out` appears
    only when every city has been read.

    Args:
        cities: their folders.
        params: section `ingest`.
        out: folder to write.
        workers: processes; None: one a core. The result does not depend on it.

    Raises:
        InputError: there is no city, a folder lacks a file, a file is refused by its reader, points and footprints
            do not overlap, or a label is of a building that is not there.
    """
    with alone(STAGE):
        _ingest(cities, params, out, workers)


def _ingest(cities: Sequence[Path], params: Ingest, out: Path, workers: int | None) -> None:
    plan = cut_parts(cities, params)
    run_jobs(read_profile_city, plan.profiles, 1, "profile rows")
    if sum(path.stat().st_size for city in plan.cities for path in city.files.products) < WORTHWHILE_BYTES:
        workers = 1
        _read_here(plan)
    else:
        run_jobs(read_city, plan.cities, 1, "footprints")
        run_jobs(read_part, plan.parts, workers, STAGE)
    read_without_repeated(plan, workers)
    with atomic_folder(out) as temporary:
        for city in plan.cities:
            assemble(city.files, plan, temporary / city.files.name)
        for rows in plan.profiles:
            place_profiles(rows, temporary / rows.files.name / CITY)
    for work in plan.work.values():
        clear(work)


def _read_here(plan: Plan) -> None:
    """Read cities and parts in threads of this process: footprints while points are parsed, one product beside another.

    A city stands in the queue before its parts, so a part that waits for it never waits for itself.
    """
    left = undone(plan.parts, STAGE)
    with ThreadPoolExecutor(cores() + 1) as pool:
        futures: list[Future[None]] = []
        for city in plan.cities:
            read = None if city.folder.exists() else pool.submit(read_city, city)
            futures += [read] if read else []
            ready = read.result if read else _nothing
            futures += [pool.submit(read_part, part, ready) for part in left if part.city == city.folder]
        try:
            for future in track(futures, len(futures), STAGE):
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _nothing() -> None:
    """Called where there is nothing to wait for."""


def read_without_repeated(plan: Plan, workers: int | None = None) -> None:
    """Read parts again in which points repeat an identifier that stands before in their product, without these."""
    again = []
    for path in {part.path: None for part in plan.parts}:
        own = [part for part in plan.parts if part.path == path]
        lengths = [np.load(part.folder / IDENTITY, mmap_mode="r") for part in own]
        bad = repeats(np.concatenate(lengths))
        if not bad.any():
            continue
        log.warning("%s: %d points repeat the identifier of an earlier one and are left out.", path, int(bad.sum()))
        for part, rows in zip(own, np.split(bad, np.cumsum([len(one) for one in lengths])[:-1]), strict=True):
            # The part tells whether it was read again, the note does not: a kill may come between the two.
            if rows.sum() != read_json(part.folder / PART)["dropped"].get("duplicate_id", 0):
                with atomic_file(part.folder.with_name(f"{part.folder.name}-{REPEATED}")) as note:
                    np.save(note, np.flatnonzero(rows))
                remove(part.folder)
                again.append(part)
    run_jobs(read_part, again, workers, STAGE)
