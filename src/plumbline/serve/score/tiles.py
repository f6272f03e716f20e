"""Read a delivery into tiles, and judge each; each tile is a folder that appears complete.

What was finished before a run was killed is there when the next one asks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
from numpy.typing import NDArray

import plumbline
from plumbline.core.errors import InputError, PlumblineError
from plumbline.core.files import atomic_folder, sha256_folder, sha256_path, write_json
from plumbline.core.jobs import WORK, clear, run_jobs
from plumbline.export.answers import Answers
from plumbline.export.package import verify_package
from plumbline.params import Ingest, Score
from plumbline.prepare.abstention import ModelledBuildings
from plumbline.prepare.assignment.nearest import UNASSIGNED
from plumbline.prepare.response.whole_building import WholeBuildings
from plumbline.prepare.strain_course import StrainCourses, join_courses
from plumbline.prepare.tiles import Tile, prepare_tile, used_tracks
from plumbline.serve.judgement import CityPredictions, OpenModel, judge, open_model, run_model
from plumbline.serve.map.page import MAX_POINTS
from plumbline.serve.place.local_rate import ONE_SHARE, RateVariation
from plumbline.serve.score.deliveries import Delivery
from plumbline.serve.when import courses_of
from plumbline.sources.city.causes import CausesFile, causes_of_city
from plumbline.sources.city.files import find_unlabelled
from plumbline.sources.city.ingest import assemble, read_without_repeated
from plumbline.sources.city.ingested import open_ingested
from plumbline.sources.city.parts import IngestPlan, Part, cut_found, read_part
from plumbline.sources.city.tiles import read_city
from plumbline.sources.city.window import parse_window
from plumbline.sources.points.points_table import write_points
from plumbline.sources.points.track import Track

STAGE = "score"
POINTS = "points"
BUILDINGS, ROWS = "buildings.parquet", "row.npy"
ANSWERS, COURSES, WHOLE = "answers.npz", "courses.npz", "whole.npz"
SEQUENCES, SHOWN, OWNED, TILE = "sequences", "points.parquet", "owned.parquet", "tile.json"
CODE = ("sources", "prepare", "export", "serve")
MIN_POINTS_PARALLEL = 200_000
"""Smallest number of points that several processes judge: fewer are judged before those
have loaded their libraries."""


@dataclass(frozen=True)
class DeliveryReading:
    """Plan of reading a delivery: the parts of its products, and the place of its tiles."""

    delivery: Delivery
    footprints: Path
    work: Path
    """Folder of the tiles; its name changes with files, settings and code."""
    plan: IngestPlan | None
    """Plan of the parts to read; None where everything was read before."""

    @property
    def points(self) -> Path:
        """Return the folder of ingested points; it is complete or absent."""
        return self.work / POINTS


@dataclass(frozen=True)
class ScoreTile(Tile):
    """Buildings to judge."""

    package: Path
    version: str
    """Version of the package: answers of two models never mix."""
    every: int
    """Step at which points are kept for the map: one in so many."""


def plan_reading(
    delivery: Delivery, footprints: Mapping[str, Path], params: Ingest
) -> DeliveryReading:
    """Plan the reading of a delivery. `read_city` comes first, then `read_part` reads its parts.

    Args:
        delivery: it. footprints: see `Score`. params: section `ingest`.

    Raises:
        InputError: the delivery is not what `plumbline predict` takes.
    """
    _check_names(delivery)
    footprints_path = footprints.get(delivery.place)
    content = [
        delivery.id,
        delivery.place,
        delivery.name,
        str(delivery.folder.resolve()),
        params.model_dump(mode="json"),
        sha256_path(footprints_path) if footprints_path else None,
        code_hash(),
    ]
    work = WORK.resolve() / STAGE / hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    files = find_unlabelled(delivery.folder, footprints_path)
    if (work / POINTS).exists():
        return DeliveryReading(delivery, files.footprints, work, None)
    return DeliveryReading(delivery, files.footprints, work, cut_found([files], [], params))


def _check_names(delivery: Delivery) -> None:
    """Refuse names with bytes that are not UTF-8, from an archive of another system:
    messages cannot hold them.

    Raises:
        InputError: there is one.
    """
    for name in (delivery.place, delivery.name, *delivery.files):
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"{name!a}: a name that is not UTF-8. Give the file or folder another one.",
                key="delivery.name_encoding",
            ) from None


def read_footprints(reading: DeliveryReading) -> list[Part]:
    """Read the footprints; return the parts of the products for `read_part` to read next.

    Raises:
        InputError: the footprints are refused.
    """
    if reading.plan is None:
        return []
    run_jobs(read_city, reading.plan.cities, 1, "footprints")
    return reading.plan.parts


def read(reading: DeliveryReading, workers: int | None) -> None:
    """Read the delivery's points into tiles, unless this was done.

    Raises:
        InputError: a file is refused, or points and footprints are not of one place.
    """
    plan = reading.plan
    if plan is None or reading.points.exists():
        return
    run_jobs(read_part, read_footprints(reading), workers, "points")
    read_without_repeated(plan, workers)
    (city,) = plan.cities
    with atomic_folder(reading.points) as out:
        assemble(city, plan, out / reading.delivery.name)
    for folder in plan.work.values():
        clear(folder)


def cut_tiles(reading: DeliveryReading, package: Path) -> list[ScoreTile]:
    """Return the tiles of a delivery that was read, for `judge_tile`.

    Raises:
        InputError: no track can be used, or the package is damaged.
    """
    manifest = verify_package(package)
    (city,) = open_ingested(reading.points)
    tracks = used_tracks(city)
    every = -(-sum(track["points"] for track in city.about["tracks"]) // (2 * MAX_POINTS))
    folder = reading.work / manifest.version
    return [
        ScoreTile(folder / name, city, name, tracks, package, manifest.version, max(1, every))
        for name in city.tiles
    ]


def judge_tile(tile: ScoreTile) -> None:
    """Write the answers for a tile's buildings, with their row in the footprints file.

    The share of damaged buildings is a figure of the whole city, so `read_answers` judges
    all tiles together.

    As `plumbline predict` answers for the whole: `tests/serve/score` holds it to that.

    Raises:
        InputError: the tile's buildings cannot be prepared.
    """
    model = _open_once(tile.package, tile.version)
    prepared, buildings, row, tracks = prepare_tile(tile, model.prepare)
    shown = [track.take(tile.own_rows(track)[:: tile.every]) for track in tracks]
    judged_buildings, answers = run_model(prepared, model, model.prepare)
    courses = courses_of(prepared, tracks, answers)
    with atomic_folder(tile.folder) as out:
        buildings[["building_id", "geometry"]].to_parquet(out / BUILDINGS)
        np.savez(out / ANSWERS, **judged_buildings._asdict(), **answers._asdict())
        np.savez(out / COURSES, **courses._asdict())
        np.savez(out / WHOLE, **prepared.whole._asdict())
        np.save(out / ROWS, row)
        prepared.sequences.save(out / SEQUENCES)
        write_points(shown, out / SHOWN)
        _owned_points(tracks, prepared.owners, row).to_parquet(out / OWNED)
        write_json(out / TILE, {"left_out": prepared.left_out.counts})


def _owned_points(
    tracks: list[Track], owners: list[NDArray[np.intp]], row: NDArray[np.int64]
) -> pd.DataFrame:
    """Return the points that belong to a tile's buildings, also those outside of the tile.

    Args:
        tracks: with the tile's points. owners: of each track (N,) building of the tile.
            row: (F,) of these buildings in the footprints file.

    Returns:
        `track`: its name; `point_id`; `row` of the building in the footprints file.
    """
    parts = []
    for track, owner in zip(tracks, owners, strict=True):
        owned = np.flatnonzero(owner != UNASSIGNED)
        columns = {
            "track": track.name,
            "point_id": track.point_id[owned].astype(str),
            "row": row[owner[owned]],
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def judge_tiles(tiles: list[ScoreTile], workers: int | None) -> None:
    """Judge the tiles that are not judged yet; few points are not worth a second process.

    Raises:
        InputError: as `judge_tile`.
    """
    points = sum(track["points"] for track in tiles[0].city.about["tracks"])
    run_jobs(
        judge_tile, tiles, 1 if workers is None and points < MIN_POINTS_PARALLEL else workers, STAGE
    )


@lru_cache(maxsize=1)
def code_hash() -> str:
    """Hash the code that decides the answers to a delivery."""
    root = Path(plumbline.__file__).parent
    return hashlib.sha256(
        "".join(sha256_folder(root / part, "*.py") for part in CODE).encode()
    ).hexdigest()


@lru_cache(maxsize=2)
def _open_once(package: Path, version: str) -> OpenModel:
    """Open the model, once per process."""
    try:
        model = open_model(package)
    except InputError as error:
        raise PlumblineError(str(error), key=error.key) from error  # no fault of the delivery
    if model.about.version != version:
        raise PlumblineError(
            f"{package}: version {model.about.version} found, {version} was there when the run "
            "began.",
            key="package.changed_meanwhile",
        )
    return model


def read_answers(
    tiles: list[ScoreTile], damage_rate: float | None = None, where: RateVariation = ONE_SHARE
) -> CityPredictions:
    """Return predictions for all footprints, in the order of their file, with reasons for
    abstentions.

    `damage_rate`: share of the buildings that are damaged; None: estimated from all tiles
    together. `where`: causes and places by which it may vary.
    """
    model = _open_once(tiles[0].package, tiles[0].version)
    parts = [_load_arrays(tile, ANSWERS) for tile in tiles]
    tile_courses = [StrainCourses(**_load_arrays(tile, COURSES)) for tile in tiles]
    courses = join_courses(tile_courses, [len(part["footprint"]) for part in parts])
    motions = [WholeBuildings(**_load_arrays(tile, WHOLE)) for tile in tiles]
    ends = np.cumsum([0, *(len(part["n_points"]) for part in parts)])
    for part, start in zip(parts, ends, strict=False):
        part["footprint"] = part["footprint"] + start
    arrays = {
        name: np.concatenate([part[name] for part in parts])
        for name in (*ModelledBuildings._fields, *Answers._fields)
    }
    buildings = [geopandas.read_parquet(tile.folder / BUILDINGS) for tile in tiles]
    judged = judge(
        ModelledBuildings(**{name: arrays[name] for name in ModelledBuildings._fields}),
        Answers(**{name: arrays[name] for name in Answers._fields}),
        geopandas.GeoDataFrame(pd.concat(buildings, ignore_index=True), crs=buildings[0].crs),
        model.prepare,
        model.about,
        damage_rate=damage_rate,
        courses=courses,
        where=where,
        whole=WholeBuildings(*(np.concatenate(part) for part in zip(*motions, strict=True))),
    )
    order = np.argsort(np.concatenate([np.load(tile.folder / ROWS) for tile in tiles]))
    return judged._replace(
        table=judged.table.iloc[order].reset_index(drop=True),
        explanation=judged.explanation[order],
    )


def judge_delivery(
    reading: DeliveryReading, tiles: list[ScoreTile], params: Score, causes: CausesFile | None
) -> CityPredictions:
    """Return predictions as `read_answers`, by what is known of the place: its share of
    damage, and its causes.

    Args:
        reading: the delivery. tiles: judged by one model. params: section `score`. causes:
            of damage at the place.

    Raises:
        InputError: the causes cannot be brought into the city's CRS.
    """
    city = tiles[0].city
    epochs = [
        track[key][:10] for track in city.about["tracks"] for key in ("first_epoch", "last_epoch")
    ]
    record = parse_window(min(epochs), max(epochs))
    near = () if causes is None else causes_of_city(causes, city.about["crs"], record)
    where = RateVariation(near, params.damage_rate_by == "place")
    return read_answers(tiles, params.damage_rates.get(reading.delivery.place), where)


def _load_arrays(tile: ScoreTile, name: str) -> dict[str, NDArray[Any]]:
    with np.load(tile.folder / name) as stored:
        return dict(stored)


def counts_of(table: geopandas.GeoDataFrame) -> dict[str, dict[str, int]]:
    """Count the buildings by status, and the answered ones by category."""
    numbers = np.bincount(table["burland_category"].dropna().to_numpy(int), minlength=5)
    return {
        "statuses": {
            str(name): int(count) for name, count in table["status"].value_counts().items()
        },
        "categories": {str(number): int(count) for number, count in enumerate(numbers)},
    }
