"""The stage `ingest`: city folders of product files -> points, buildings and labels tables, by tile."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from plumbline.console import log
from plumbline.errors import InputError
from plumbline.files import atomic_file, atomic_folder, read_json, write_json
from plumbline.jobs import alone, clear, remove, run_jobs, work_folder
from plumbline.params import Ingest
from plumbline.sources.city import ABOUT, NEIGHBOURS, CityFiles, CityPlan, find_files, read_city
from plumbline.sources.distinct import check_distinct
from plumbline.sources.overlap import check_overlap
from plumbline.sources.part import FOOTPRINTS, HALO, IDENTITY, PART, POINTS, REPEATED, Part, load_sample, read_part
from plumbline.sources.points import Track, concatenate_tracks, repeats
from plumbline.sources.read import parts

STAGE = "ingest"
CITY = "city.json"
SAMPLED_BYTES = 2**28
"""Of a product up to this size all points are compared with other products; of a larger one, as many as in one."""
WORTHWHILE_BYTES = 2**28
"""Less than this is read before other processes have loaded their libraries."""


@dataclass(frozen=True)
class Plan:
    """A run: where its finished portions lie, what was asked for, and the portions."""

    work: dict[str, Path]
    """City -> folder."""
    cities: list[CityFiles]
    params: Ingest
    parts: list[Part]


def ingest(cities: Sequence[Path], params: Ingest, out: Path, workers: int | None = None) -> None:
    """Read city folders into `out/CITY/{points,halo,buildings,labels}/TILE…` and `out/CITY/city.json`.

    A city folder holds point products, one file of footprints and `labels.csv`. Products are read part by part, in
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
    plan = plan_parts(cities, params)
    if sum(path.stat().st_size for city in plan.cities for path in city.products) < WORTHWHILE_BYTES:
        workers = 1
    run_jobs(read_part, plan.parts, workers, STAGE)
    read_without_repeated(plan, workers)
    with atomic_folder(out) as temporary:
        for city in plan.cities:
            _assemble(city, plan, temporary / city.name)
    for work in plan.work.values():
        clear(work)


def plan_parts(cities: Sequence[Path], params: Ingest) -> Plan:
    """Read footprints and labels of all cities, and cut the products into parts to be read by `read_part`.

    Raises:
        InputError: as `ingest`, but for what only the points can show.
    """
    if not cities:
        raise InputError("ingest: no city folder given.")
    found = [find_files(folder) for folder in cities]
    names = [city.name for city in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"ingest: two city folders are named {twice[0]}. Rename one.")
    settings, code = params.model_dump(mode="json"), [Path(__file__).parent]
    # One folder a city: a mended file of one does not have the others read again.
    work = {city.name: work_folder(STAGE, city.paths(params), settings, code) for city in found}
    plans = [CityPlan(work[city.name] / "city", city, params) for city in found]
    run_jobs(read_city, plans, 1, "footprints")
    result = []
    for plan in plans:
        crs = read_json(plan.folder / ABOUT)["crs"]
        sampled = max(1, max(path.stat().st_size for path in plan.files.products) // SAMPLED_BYTES)
        for product, path in enumerate(plan.files.products):
            for number, span in enumerate(parts(path, params.products)):
                folder = work[plan.files.name] / f"{product:04d}-{number:04d}"
                result.append(Part(folder, plan.folder, path, crs, (product, number), span, sampled, params))
    return Plan(work, found, params, result)


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


def _assemble(city: CityFiles, plan: Plan, out: Path) -> None:
    """Check what only all points together can show, and put the city's files in their places."""
    folder = plan.work[city.name] / "city"
    about = read_json(folder / ABOUT)
    polygons = shapely.from_wkb(pq.read_table(folder / FOOTPRINTS)["wkb"].to_numpy(zero_copy_only=False))
    buildings = geopandas.GeoDataFrame(geometry=polygons, crs=about["crs"])
    buildings.attrs["source_crs"] = about["footprints_crs"]
    own = {path: [part for part in plan.parts if part.path == path] for path in city.products}
    samples = [_sample(path, own[path]) for path in city.products]
    names = [str(path) for path in city.products]
    twice = sorted({track.name for track in samples if [one.name for one in samples].count(track.name) > 1})
    if twice:
        raise InputError(f"{city.products[0].parent}: two products are named {twice[0]}. Give each a name of its own.")
    check_distinct(samples, names)
    check_overlap(samples, buildings, ", ".join(names), str(city.footprints))
    tiles: dict[str, Counter[str]] = {}
    tracks = []
    for path, sample in zip(city.products, samples, strict=True):
        told = [read_json(part.folder / PART) for part in own[path]]
        tracks.append(_describe(path, sample, told))
        for one in told:
            for kind in (POINTS, HALO):
                for tile, count in one[kind].items():
                    tiles.setdefault(tile, Counter())[kind] += count
        for part in own[path]:
            for kind in (POINTS, HALO):
                _link(part.folder / kind, out / kind)
    for kind in ("buildings", "labels", NEIGHBOURS):
        _link(folder / kind, out / kind)
    for path in sorted((out / "buildings").iterdir()):
        tiles.setdefault(path.stem, Counter())
    write_json(
        out / CITY,
        {
            **about, "tile_m": plan.params.tile_m, "footprints": city.footprints.name, "labels": city.labels.name,
            "tracks": tracks,
            "tiles": {tile: {kind: tiles[tile][kind] for kind in (POINTS, HALO)} for tile in sorted(tiles)},
        },
    )  # fmt: skip
    kept = sum(track["points"] for track in tracks)
    log.info("%s: %d points, %d buildings, %d labelled", city.name, kept, about["buildings"], about["labelled"])


def _sample(path: Path, own: Sequence[Part]) -> Track:
    """The points of a product that its parts have kept for comparing, without series.

    Raises:
        InputError: it has none, or none that the quality filter let through.
    """
    told = [read_json(part.folder / PART) for part in own]
    epochs = np.array(told[0]["epochs"], "datetime64[D]")
    samples = [track for part in own if (track := load_sample(part.folder, epochs)) is not None]
    if not any(count for one in told for count in one[POINTS].values()):
        dropped = _total(told)
        raise InputError(
            f"{path}: no point is left, {', '.join(f'{n} dropped by {rule}' for rule, n in dropped.items()) or 'none'}"
            " there. Change the bounds of section ingest in params.yaml, or leave the file out."
        )
    return concatenate_tracks(samples)


def _total(told: Sequence[dict[str, Any]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in told:
        total.update(one["dropped"])
    return total


def _describe(path: Path, sample: Track, told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What `city.json` and the audit say of a track."""
    dropped = _total(told)
    points = sum(count for one in told for count in one[POINTS].values())
    epochs: NDArray[np.datetime64] = sample.epochs
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
        "notes": told[0]["notes"],
        "duplicates": sum(one["same_place"] for one in told),
        "missing_share": round(sum(o["missing"] for o in told) / max(sum(o["values"] for o in told), 1), 6),
        "los": [round(float(value), 5) for value in sample.los.mean(0)],
    }


def _link(source: Path, target: Path) -> None:
    """Give all files of a folder a second name below another, or copy them where the file system has no such thing."""
    for path in sorted(source.rglob("*.parquet")):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, place)
        except OSError:
            shutil.copyfile(path, place)
