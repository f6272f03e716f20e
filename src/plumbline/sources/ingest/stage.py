"""Run the stage `ingest`: turn city folders of product files into points, buildings and labels tables, by tile."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from threading import Event

import numpy as np

from plumbline.core.console import log, track
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file, atomic_folder, read_json, write_json
from plumbline.core.jobs import alone, clear, cores, remove, run_jobs, undone
from plumbline.params import Ingest
from plumbline.sources.city.tables import read_city
from plumbline.sources.ingest.assemble import CITY, assemble
from plumbline.sources.ingest.parts import (
    IDENTITY,
    NUMBERED,
    PART,
    REPEATED,
    STAGE,
    IngestPlan,
    cut_parts,
    read_part,
)
from plumbline.sources.points.read import NUMBERED_ANEW
from plumbline.sources.profiles.city import place_profiles, read_profile_city
from plumbline.sources.track import repeats

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
        workers: processes, or where there is little to read, threads; None: one a core. The result does not depend on
            it.

    Raises:
        InputError: there is no city, a folder lacks a file, a file is refused by its reader, points and footprints
            do not overlap, or a label is of a building that is not there.
    """
    with alone(STAGE):
        _ingest(cities, params, out, workers)


def _ingest(cities: Sequence[Path], params: Ingest, out: Path, workers: int | None) -> None:
    plan = cut_parts(cities, params)
    run_jobs(read_profile_city, plan.profiles, 1, "profile rows")
    workers = workers or cores()
    little = sum(_size(path) for city in plan.cities for path in city.files.products) < WORTHWHILE_BYTES
    if little and workers > 1:
        _read_here(plan, workers + 1)
    else:
        run_jobs(read_city, plan.cities, 1, "footprints")
        run_jobs(read_part, plan.parts, 1 if little else workers, STAGE)
    workers = 1 if little else workers
    read_without_repeated(plan, workers)
    with atomic_folder(out) as temporary:
        for city in plan.cities:
            assemble(city, plan, temporary / city.files.name)
        for rows in plan.profiles:
            place_profiles(rows, temporary / rows.files.name / CITY)
    for work in plan.work.values():
        clear(work)


def _size(path: Path) -> int:
    """Return the unpacked size of a product, bytes."""
    if not zipfile.is_zipfile(path):
        return path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


def _read_here(plan: IngestPlan, threads: int) -> None:
    """Read cities and parts in threads of this process: footprints while points are parsed, one product beside another.

    Cities stand in the queue before parts, so a part that waits for one never waits for itself. The first failure ends
    all others at their next block; of several, that of the first in the queue is told.

    Raises:
        InputError: as `read_city` and `read_part`.
    """
    stop = Event()
    cities = {city.folder: city for city in plan.cities if not city.folder.exists()}
    with ThreadPoolExecutor(threads) as pool:
        reading = {folder: pool.submit(read_city, city) for folder, city in cities.items()}
        futures = list(reading.values())
        for part in undone(plan.parts, STAGE):
            ready = reading[part.city].result if part.city in reading else _nothing
            futures.append(pool.submit(read_part, part, ready, partial(_go_on, stop)))
        try:
            for future in track(as_completed(futures), len(futures), STAGE, finished=True):
                future.result()
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            for future in futures:
                if not future.cancelled() and isinstance(error := future.exception(), InputError):
                    raise error from None
            raise


def _go_on(stop: Event) -> None:
    if stop.is_set():
        raise CancelledError


def _nothing() -> None:
    """Do nothing: the part waits for no reading of its city."""


def read_without_repeated(plan: IngestPlan, workers: int | None = None) -> None:
    """Read parts again if points have bad identifiers in their product.

    A point that repeats identifier and place of one before it is left out; where points of several places share an
    identifier, all of the product are numbered.
    """
    again = []
    for path in {part.file.path: None for part in plan.parts}:
        own = [part for part in plan.parts if part.file.path == path]
        seen = [np.load(part.folder / IDENTITY, mmap_mode="r") for part in own]
        ends = np.cumsum([len(one) for one in seen])
        bad = repeats(np.concatenate([one[:, 1] for one in seen]))
        is_shared = bool(repeats(np.concatenate([one[:, 0] for one in seen])[~bad]).any())
        if bad.any():
            log.warning(
                "%s: %d points repeat the identifier and the place of an earlier one and are left out.",
                path,
                int(bad.sum()),
            )
        if is_shared:
            log.warning(NUMBERED_ANEW, path)
        for part, rows, end in zip(own, np.split(bad, ends[:-1]), ends, strict=True):
            told = read_json(part.folder / PART)
            # The part tells whether it was read again, the notes do not: a kill may come between the two.
            if rows.sum() == told["dropped"].get("duplicate_id", 0) and is_shared == told["numbered"]:
                continue
            with atomic_file(part.folder.with_name(f"{part.folder.name}-{REPEATED}")) as note:
                np.save(note, np.flatnonzero(rows))
            if is_shared:
                write_json(part.folder.with_name(f"{part.folder.name}-{NUMBERED}"), {"first": int(end) - len(rows) + 1})
            remove(part.folder)
            again.append(part)
    run_jobs(read_part, again, workers, STAGE)
