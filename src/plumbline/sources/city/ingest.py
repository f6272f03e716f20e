"""Run the stage `ingest`: read every city's files into tables."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from plumbline.core.console import log, track, warn
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file, atomic_folder, read_json, write_json
from plumbline.core.jobs import AnyJob, alone, clear, cores, remove, run_jobs, undone
from plumbline.params import Ingest
from plumbline.sources.alignment import warn_of_offset
from plumbline.sources.checks import check_overlap, warn_of_datum
from plumbline.sources.city.files import is_simulated
from plumbline.sources.city.parts import (
    HALO,
    IDENTITY,
    NUMBERED,
    PART,
    POINTS,
    REPEATED,
    STAGE,
    IngestPlan,
    Part,
    cut_parts,
    load_sample,
    read_part,
)
from plumbline.sources.city.profile_city import place_profiles, read_profile_city
from plumbline.sources.city.tiles import ABOUT, FOOTPRINTS, NEIGHBOURS, CityPlan, read_city
from plumbline.sources.distinct import check_distinct
from plumbline.sources.files.limits import warn_of_limits
from plumbline.sources.points.epochs import observed
from plumbline.sources.points.missing import Sizes, warn_of_unit
from plumbline.sources.points.read import NUMBERED_ANEW
from plumbline.sources.points.recognise import FORMATS
from plumbline.sources.points.track import Track, concatenate_tracks, repeats

CITY = "city.json"


def assemble(planned: CityPlan, plan: IngestPlan, out: Path) -> None:
    """Run the checks that need all points together, and put the city's files in their places."""
    folder, city, params = planned.folder, planned.files, planned.params
    about = read_json(folder / ABOUT)
    polygons = shapely.from_wkb(
        pq.read_table(folder / FOOTPRINTS)["wkb"].to_numpy(zero_copy_only=False)
    )
    buildings = geopandas.GeoDataFrame(geometry=polygons, crs=about["crs"])
    buildings.attrs["source_crs"] = about["footprints_crs"]
    parts = {
        path: [part for part in plan.parts if part.file.path == path] for path in city.products
    }
    reports = {
        path: [read_json(part.folder / PART) for part in parts[path]] for path in city.products
    }
    samples = [_sample_of(path, parts[path], reports[path]) for path in city.products]
    names = [str(path) for path in city.products]
    repeated = sorted(
        name for name, count in Counter(sample.name for sample in samples).items() if count > 1
    )
    if repeated:
        raise InputError(
            f"{city.folder}: two products are named {repeated[0]}. Give each a name of its own.",
            key="products.repeated_name",
        )
    check_distinct(samples, names)
    warn_of_datum(samples, names, [file.about.raised_m for file in planned.products])
    simulated = is_simulated(city.folder)
    # Simulated labels name quadrants by the grid, wherever it is.
    check_overlap(
        samples,
        buildings,
        ", ".join(names),
        str(city.footprints),
        asked_crs=params.crs,
        warn_of_north=not simulated,
    )
    borrowed = city.name if simulated else None
    warn_of_offset(samples, buildings, ", ".join(names), params.products, borrowed)
    points: Counter[tuple[str, str]] = Counter()
    tracks = []
    for file, sample in zip(planned.products, samples, strict=True):
        path = file.path
        sizes = reduce(Sizes.plus, (Sizes(*report["sizes"]) for report in reports[path]))
        warn_of_unit(path, sizes, FORMATS[file.format].can_state_units)
        tracks.append(_describe_track(path, sample, reports[path]))
        if file.csv is not None:
            warn_of_limits(path, n_rows=tracks[-1]["points_read"])
        for part, report in zip(parts[path], reports[path], strict=True):
            for kind in (POINTS, HALO):
                points.update({(tile, kind): count for tile, count in report[kind].items()})
                _link(part.folder / kind, out / kind)
    for kind in ("buildings", "labels", NEIGHBOURS):
        _link(folder / kind, out / kind)
    tiles = sorted(
        {tile for tile, _ in points} | {path.stem for path in (out / "buildings").iterdir()}
    )
    write_json(
        out / CITY,
        {
            **about,
            "tile_m": params.tile_m,
            "footprints": city.footprints.name,
            "labels": city.labels.name if city.labels else None,
            "tracks": tracks,
            "tiles": {
                tile: {kind: points[tile, kind] for kind in (POINTS, HALO)} for tile in tiles
            },
        },
    )
    count = sum(track["points"] for track in tracks)
    log.info(
        "%s: %d points, %d buildings, %d labelled",
        city.name,
        count,
        about["buildings"],
        about["labelled"],
    )


def _sample_of(path: Path, parts: Sequence[Part], reports: Sequence[dict[str, Any]]) -> Track:
    """Return the sample of a product's points that its parts kept for comparisons, without series.

    Raises:
        InputError: it has none, or none that the quality filter let through.
    """
    if not any(count for report in reports for count in report[POINTS].values()):
        dropped = _count_dropped(reports)
        raise InputError(
            f"{path}: no point is left, "
            f"{', '.join(f'{n} dropped by {rule}' for rule, n in dropped.items()) or 'none'} "
            "there. Change the bounds of section ingest in params.yaml, or leave the file out.",
            key="points.none_left",
        )
    epochs = np.array(reports[0]["epochs"], "datetime64[D]")
    samples = (load_sample(part.folder, epochs) for part in parts)
    return concatenate_tracks([sample for sample in samples if sample is not None])


def _count_dropped(reports: Sequence[dict[str, Any]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for report in reports:
        # A sum of Counters would lose the rules that dropped nothing.
        total.update(report["dropped"])
    return total


def _describe_track(path: Path, sample: Track, reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Describe a track for `city.json` and the audit."""
    dropped = _count_dropped(reports)
    points = sum(count for report in reports for count in report[POINTS].values())
    values_T = np.array([report["values"] for report in reports], np.int64).sum(axis=0)
    is_observed_T = observed(str(path), sample.epochs, values_T)
    epochs: NDArray[np.datetime64] = sample.epochs[is_observed_T]
    steps = np.diff(epochs).astype(int)
    return {
        "name": sample.name,
        "product": path.name,
        "points_read": points + sum(dropped.values()),
        "dropped": dict(dropped),
        "points": points,
        "epochs": len(epochs),
        "days": [str(day) for day in epochs],
        "first_epoch": str(epochs[0]),
        "last_epoch": str(epochs[-1]),
        "revisit_days": int(np.median(steps)) if len(steps) else 0,
        "longest_gap_days": int(steps.max(initial=0)),
        "notes": reports[0]["notes"],
        "missing_share": round(1 - float(values_T.sum()) / max(points * len(epochs), 1), 6),
        "los": [round(float(value), 5) for value in sample.los.mean(0)],
    }


def _link(source: Path, target: Path) -> None:
    """Link all files of a folder below another, or copy them if the file system lacks hard
    links."""
    for path in sorted(source.rglob("*.parquet")):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, place)
        except OSError:
            shutil.copyfile(path, place)


WORTHWHILE_BYTES = 2**30
"""Size below which files are read in threads: loading libraries in other processes takes longer."""


def ingest(cities: Sequence[Path], params: Ingest, out: Path, workers: int | None = None) -> None:
    """Read city folders into `out/CITY/{points,halo,buildings,labels}/TILE…` and
    `out/CITY/city.json`.

    A city folder holds point products, one file of footprints and `labels.csv`; or profile
    rows alone, which become `out/CITY/profiles.parquet`. Products are read part by part, in
    several processes, in bounded memory; parts that an interrupted run has finished are not
    read again. `out` appears only when every city has been read.

    Args:
        cities: their folders.
        params: section `ingest`.
        out: folder to write.
        workers: processes, or where there is little to read, threads; None: one a core. The
            result does not depend on it.

    Raises:
        InputError: there is no city, a folder lacks a file, a file is refused by its
            reader, points and footprints do not overlap, or a label is of a building that
            is not there.
    """
    with alone(STAGE):
        plan = cut_parts(cities, params)
        run_jobs(read_profile_city, plan.profiles, 1, "profile rows")
        workers = workers or cores()
        if (
            sum(_unpacked_bytes(path) for city in plan.cities for path in city.files.products)
            < WORTHWHILE_BYTES
        ):
            _run_in_threads(read_city, plan.cities, workers)
            _run_in_threads(read_part, plan.parts, workers)
            workers = 1
        else:
            run_jobs(read_city, plan.cities, 1, "footprints")
            run_jobs(read_part, plan.parts, workers, STAGE)
        read_without_repeated(plan, workers)
        with atomic_folder(out) as temporary:
            for city in plan.cities:
                assemble(city, plan, temporary / city.files.name)
            for rows in plan.profiles:
                place_profiles(rows, temporary / rows.files.name / CITY)
        for work in plan.work.values():
            clear(work)


def _unpacked_bytes(path: Path) -> int:
    """Return the unpacked size of a product, bytes."""
    if not zipfile.is_zipfile(path):
        return path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


def _run_in_threads(work: Callable[[AnyJob], None], jobs: Sequence[AnyJob], threads: int) -> None:
    """Call `work` on every job that has no folder yet; the first failure of them, in their
    order, ends the others."""
    unfinished = undone(jobs, STAGE)
    with ThreadPoolExecutor(threads) as pool:
        for _ in track(pool.map(work, unfinished), len(unfinished), STAGE, finished=True):
            pass


def read_without_repeated(plan: IngestPlan, workers: int | None = None) -> None:
    """Read parts again if points have bad identifiers in their product.

    A point that repeats identifier and place of one before it is left out; where points of
    several places share an identifier, all of the product are numbered.
    """
    repeated_parts = []
    for path in {part.file.path: None for part in plan.parts}:
        parts = [part for part in plan.parts if part.file.path == path]
        identities = [np.load(part.folder / IDENTITY, mmap_mode="r") for part in parts]
        ends = np.cumsum([len(rows) for rows in identities])
        is_repeated = repeats(np.concatenate([rows[:, 1] for rows in identities]))
        is_shared = bool(
            repeats(np.concatenate([rows[:, 0] for rows in identities])[~is_repeated]).any()
        )
        if is_repeated.any():
            warn(
                "%s: %d points repeat the identifier and the place of an earlier one and are "
                "left out.",
                path,
                int(is_repeated.sum()),
                key="points.repeated",
            )
        if is_shared:
            warn(NUMBERED_ANEW, path, key="points.renumbered")
        for part, rows, end in zip(parts, np.split(is_repeated, ends[:-1]), ends, strict=True):
            report = read_json(part.folder / PART)
            # The part records whether it was read again, the notes do not: a kill may come between.
            if (
                rows.sum() == report["dropped"].get("duplicate_id", 0)
                and is_shared == report["numbered"]
            ):
                continue
            with atomic_file(part.folder.with_name(f"{part.folder.name}-{REPEATED}")) as note:
                np.save(note, np.flatnonzero(rows))
            if is_shared:
                write_json(
                    part.folder.with_name(f"{part.folder.name}-{NUMBERED}"),
                    {"first": int(end) - len(rows) + 1},
                )
            remove(part.folder)
            repeated_parts.append(part)
    run_jobs(read_part, repeated_parts, workers, STAGE)
