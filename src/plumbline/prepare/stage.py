"""Run the stage `prepare`: from points and footprints of every city to shards of sequences
and an audit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, read_json
from plumbline.core.jobs import WORK, alone, clear, run_jobs, work_folder
from plumbline.params import Prepare
from plumbline.prepare.abstention import REASONS
from plumbline.prepare.audit import audit
from plumbline.prepare.audit.figures import report_tracks
from plumbline.prepare.features.sequences import Sequences
from plumbline.prepare.features.shards import load_shards, save_shards
from plumbline.prepare.profiles import (
    ProfilePart,
    about_groups,
    plan_profiles,
    prepare_profiles,
    profile_places,
    profile_reports,
)
from plumbline.prepare.response.decompose import TrackMeans, motion_table
from plumbline.prepare.split import ground_crs, number_blocks, one_ground, split
from plumbline.prepare.tiles import (
    CENTRE,
    IDS,
    TILE,
    LabelledTile,
    count_left_out,
    load_means,
    used_tracks,
    write_tile,
)
from plumbline.sources.city.ingest import CITY
from plumbline.sources.city.ingested import Ingested, open_ingested, open_profiles

STAGE = "prepare"
AUDIT, MOTION = "audit", "motion"
MOTION_DECIMALS = 6
"""Decimals of velocities in the tables of motion, mm/yr: the same on any processor."""
WORTHWHILE_POINTS = 200_000
"""Smallest number of points for several processes: fewer are prepared before these have loaded
their libraries."""


@dataclass(frozen=True)
class PreparePlan:
    """A run: the folder of its finished portions, the cities, and the portions in the order
    of the result."""

    work: Path
    cities: list[Ingested]
    tiles: list[LabelledTile]
    profiles: list[ProfilePart]
    """Files of the cities of profile rows; their buildings come after those of the tiles."""


def prepare(ingested: Path, params: Prepare, out: Path, workers: int | None = None) -> None:
    """Write `out/<split>/shard-*/*.npy` for each split, `out/motion/CITY.parquet` and the
    audit, `out/audit/`.

    The work is done tile by tile, in several processes; tiles that an interrupted run has
    finished are not done again.

    Args:
        ingested: folder of the stage `ingest`: one folder a city.
        params: section `prepare`.
        out: folder to write.
        workers: processes; None: one a core.

    Raises:
        InputError: there is no city, one cannot be prepared, there are too few buildings
            for the splits, or the audit failed: then its evidence is in `.plumbline/audit`.
    """
    with alone(STAGE):
        _prepare(ingested, params, out, workers)


def _prepare(ingested: Path, params: Prepare, out: Path, workers: int | None) -> None:
    shutil.rmtree(WORK / AUDIT, ignore_errors=True)  # of a run that failed before
    plan = plan_tiles(ingested, params)
    if (
        sum(track["points"] for city in plan.cities for track in city.about["tracks"])
        < WORTHWHILE_POINTS
    ):
        workers = 1
    run_jobs(write_tile, plan.tiles, workers, STAGE)
    run_jobs(prepare_profiles, plan.profiles, workers, "profile rows")
    centre, city = _locate_buildings(plan, params.block_m)
    if not len(city):
        raise InputError(_explain_empty(plan), key="buildings.none_left")
    try:
        names = split(centre, city, params)
    except InputError as error:
        raise InputError(f"{error}{about_groups(plan.profiles)}", key=error.key) from None
    with atomic_folder(out) as folder:
        for name in params.split:
            count = save_shards(_select_buildings(plan, names == name), folder / name)
            log.info("%s: %d buildings", name, count)
        _write_motion(plan, folder / MOTION)
        blocks = _block_names(centre, city, params.block_m)
        report = {
            "cities": {
                ingested_city.folder.name: _report_city(ingested_city, plan)
                for ingested_city in plan.cities
            }
            | profile_reports(plan.profiles),
            "blocks": {name: np.unique(blocks[names == name]).tolist() for name in params.split},
        }
        outcome = audit(
            {name: load_shards(folder / name) for name in params.split}, report, params.audit
        )
        outcome.raise_if_failed(WORK / AUDIT)
        for rule in outcome.rules:
            if rule.status == "warn":
                warn(
                    "audit: %s: %s. %s",
                    rule.name,
                    rule.reason.rstrip("."),
                    rule.advice,
                    key=f"audit.{rule.name}",
                )
        outcome.write(folder / AUDIT)
    shutil.rmtree(WORK / AUDIT, ignore_errors=True)  # the evidence of a failure that is mended
    clear(plan.work)


def plan_tiles(ingested: Path, params: Prepare) -> PreparePlan:
    """Plan the tiles of all cities, for `write_tile` to work on.

    Raises:
        InputError: there is no city, or no track of one can be used.
    """
    cities, rows = open_ingested(ingested), open_profiles(ingested)
    source = Path(__file__).parent
    work = work_folder(
        STAGE,
        [
            folder / CITY
            for folder in [*(city.folder for city in cities), *(city.folder for city in rows)]
        ],
        params.model_dump(
            mode="json", exclude={"audit", "split", "seed", "block_m", "folds", "fold"}
        ),
        [source, source.parent / "sources"],
    )
    tiles = []
    for city in cities:
        used = used_tracks(city)
        tiles += [
            LabelledTile(work / city.folder.name / name, city, name, used, params)
            for name in city.tiles
        ]
    return PreparePlan(work, cities, tiles, plan_profiles(rows, work, params))


def _locate_buildings(
    plan: PreparePlan, block_m: float
) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Return centre (B, 2) and name of the place (B,) of every building, in the order of
    the portions."""
    tile_centres = {city.folder.name: [np.zeros((0, 2))] for city in plan.cities}
    for tile in plan.tiles:
        tile_centres[tile.city.folder.name].append(np.load(tile.folder / CENTRE))
    centres = {city: np.concatenate(parts) for city, parts in tile_centres.items()}
    place, joined_centres = one_ground(
        centres, ground_crs((tile.city.folder.name, tile.folder / TILE) for tile in plan.tiles)
    )
    names = [np.full(len(part), place[city]) for city, part in joined_centres.items()]
    profile_centres, profile_cities = profile_places(plan.profiles, block_m)
    return np.concatenate([*joined_centres.values(), profile_centres]), np.concatenate(
        [*names, profile_cities]
    )


def _select_buildings(plan: PreparePlan, wanted: NDArray[np.bool_]) -> Iterator[Sequences]:
    """Yield the `wanted` (B,) buildings of every portion, in order, rounded as they are written."""
    start = 0
    for folder in [*(tile.folder for tile in plan.tiles), *(part.folder for part in plan.profiles)]:
        sequences = Sequences.load(folder / "sequences")
        yield sequences.take(np.flatnonzero(wanted[start : start + len(sequences)])).rounded()
        start += len(sequences)


def _block_names(
    centre: NDArray[np.float64], city: NDArray[np.str_], block_m: float
) -> NDArray[np.str_]:
    """Return the block (B,) of each building as `CITY/x/y`."""
    number = number_blocks(centre, city, block_m).number
    _, first = np.unique(number, return_index=True)
    place = np.floor(centre[first] / block_m).astype(int).tolist()
    return np.array([f"{city[row]}/{x}/{y}" for row, (x, y) in zip(first, place, strict=True)])[
        number
    ]


def _write_motion(plan: PreparePlan, folder: Path) -> None:
    """Write how every building moves as a whole, one table for each city."""
    folder.mkdir()
    for city in plan.cities:
        folders = [tile.folder for tile in plan.tiles if tile.city is city]
        means = TrackMeans(
            *(np.concatenate(arrays) for arrays in zip(*map(load_means, folders), strict=True))
        )
        ids = np.concatenate([np.load(path / IDS) for path in folders]).astype(object)
        table = motion_table(ids, means)
        velocities = table.select_dtypes(float)
        table[velocities.columns] = velocities.round(MOTION_DECIMALS) + 0.0  # no zero keeps a sign
        table.to_parquet(folder / f"{city.folder.name}.parquet", index=False)


def _explain_empty(plan: PreparePlan) -> str:
    left_out = count_left_out(
        [*(tile.folder for tile in plan.tiles), *(part.folder for part in plan.profiles)]
    )
    counts = ", ".join(f"{count} as {reason}" for reason, count in left_out.most_common() if count)
    return (
        f"prepare: no building is left to train on; left out: {counts or 'none'}. Where points "
        "are few, lower "
        "prepare.min_points or add products."
    )


def _report_city(city: Ingested, plan: PreparePlan) -> dict[str, Any]:
    """Return a city's report for the audit."""
    tiles = [tile for tile in plan.tiles if tile.city is city]
    left_out = count_left_out(tile.folder for tile in tiles)
    points = np.sum([read_json(tile.folder / TILE)["assigned"] for tile in tiles], axis=0)
    assigned = dict(zip(tiles[0].tracks, points.tolist(), strict=True))
    notes = [
        f"{count} footprints {remark}"
        for remark, count in city.about["footprints_said"].items()
        if count
    ]
    notes += [
        f"track {track['name']}: {note}"
        for track in city.about["tracks"]
        for note in track["notes"]
    ]
    notes += [
        f"track {track['name']} is not used: it covers too little of the period of the others"
        for track in city.about["tracks"]
        if track["name"] not in assigned
    ]
    for reason, count in left_out.items():
        if count and reason in REASONS:
            log.info(
                "%s: %d buildings left out as %s: %s",
                city.folder.name,
                count,
                reason,
                REASONS[reason],
            )
    figures = report_tracks(tiles[0].tracks, (tile.folder for tile in tiles))
    tracks = [
        {**track, "assigned": assigned.get(track["name"], 0), **figures.get(track["name"], {})}
        for track in city.about["tracks"]
    ]
    keys = ("buildings", "labelled", "area_km2")
    return {
        **{key: city.about[key] for key in keys},
        "left_out": dict(left_out),
        "notes": notes,
        "tracks": tracks,
    }
