"""Cut the products of cities into parts, and read one part: its points in files by tile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, read_json, write_json
from plumbline.core.jobs import run_jobs, work_folder
from plumbline.params import Ingest
from plumbline.sources.checks import NEAR_M, points_near_footprints
from plumbline.sources.city.files import CityFiles, find_files, is_simulated
from plumbline.sources.city.profile_city import ProfileCity
from plumbline.sources.city.profile_rows import ProfileFiles, find_profiles
from plumbline.sources.city.tiles import (
    FOOTPRINTS,
    TILES,
    CityPlan,
    Tiles,
    cells,
    open_products,
    read_city,
    tile_name,
)
from plumbline.sources.points.missing import Sizes, sizes_of
from plumbline.sources.points.points_table import read_points_table, write_blocks, write_points
from plumbline.sources.points.read import open_product, parts_of
from plumbline.sources.points.source import ProductFile
from plumbline.sources.points.track import (
    Track,
    concatenate_tracks,
    identity,
    numbered,
    place_identity,
)

SPILL_BYTES = 2**27
"""Series kept in memory before they are written: a part of a csv has about as much, a large
zip is written in turns."""
SIZED = 500
"""Number of points of each block of which the displacements are checked for their unit."""
POINTS, HALO = "points", "halo"
PART, IDENTITY, SAMPLE = "part.json", "identity.npy", "sample.parquet"
REPEATED, NUMBERED = "repeated.npy", "numbered.json"
SAMPLED_M = 50.0
"""Side of the squares of which points are sampled."""


@dataclass(frozen=True)
class Part:
    """Points to read, and the folder for the result."""

    folder: Path
    """Folder of the result: `points/TILE/*.parquet`, `halo/TILE/*.parquet`, facts for the city."""
    city: Path
    """Folder with the city's `tiles.npz` and footprints."""
    file: ProductFile
    crs: str
    number: tuple[int, int]
    """Numbers of the product in its city and of the part in its product: they name the files."""
    span: tuple[int, int | None]
    """Bytes of a csv, or row groups of a Parquet file."""
    sampled: int
    """Number of points of which one is kept for comparing products."""
    params: Ingest


def read_part(part: Part) -> None:
    """Read, filter and write the points of a part.

    Beside its folder, `repeated.npy` lists the rows to leave out, and `numbered.json` has the
    number of the first point if points are named by their rows.

    Args:
        part: what to read; the folder of its city is there.

    Raises:
        InputError: the reader refuses the file.
    """
    source = open_product(part.file, part.crs, part.span)
    repeated_file = part.folder.with_name(f"{part.folder.name}-{REPEATED}")
    repeated = np.load(repeated_file) if repeated_file.exists() else np.zeros(0, np.intp)
    numbered_file = part.folder.with_name(f"{part.folder.name}-{NUMBERED}")
    first_number = read_json(numbered_file)["first"] if numbered_file.exists() else None
    with atomic_folder(part.folder) as out:
        writer, identities, samples = _TileWriter(out, part), [np.zeros((0, 2), np.uint64)], []
        row, values_T = 0, np.zeros(len(source.epochs), np.int64)
        sizes = Sizes(0, 0, 0)
        dropped: Counter[str] = Counter()
        for block in source.blocks():
            identities.append(np.column_stack([identity(block.point_id), place_identity(block)]))
            if first_number is not None:
                block = replace(block, point_id=numbered(first_number + row, len(block)))
            sizes = sizes.plus(sizes_of(block.displacement, SIZED))
            samples.append(without_series(block.take(_sample_rows(block, part.sampled))))
            rows = np.arange(row, row := row + len(block))
            if len(repeated):
                block = block.keep(~np.isin(rows, repeated), "duplicate_id")
            block = drop_poor(block, part.params)
            dropped.update(block.dropped)
            values_T += np.isfinite(block.displacement).sum(axis=0)
            writer.add(block)
        writer.spill()
        np.save(out / IDENTITY, np.concatenate(identities))
        if samples:
            sample = concatenate_tracks(samples)
            if writer.near is not None and writer.near.point_id[0] not in sample.point_id:
                sample = concatenate_tracks([sample, writer.near])
            write_points([sample], out / SAMPLE)
        write_json(
            out / PART,
            {
                "name": source.name,
                "epochs": [str(day) for day in source.epochs],
                "dropped": dict(dropped),
                "numbered": first_number is not None,
                "notes": list(source.notes),
                "values": values_T.tolist(),
                "sizes": list(sizes),
                **writer.counts,
            },
        )


def drop_poor(points: Track, params: Ingest) -> Track:
    """Drop the points that the quality filter refuses, and count them by rule; counts may be 0."""
    if points.coherence is not None:
        # Compared as the product's float32: 0.7 in params must keep a point of 0.7. One of
        # unknown coherence stays.
        points = points.keep(
            ~(points.coherence < np.float32(params.min_coherence)), "min_coherence"
        )
    if points.rmse is not None and params.max_rmse_mm is not None:
        points = points.keep(~(points.rmse > np.float32(params.max_rmse_mm)), "max_rmse_mm")
    return points


def load_sample(folder: Path, epochs: NDArray[np.datetime64]) -> Track | None:
    """Load a part's sample for comparing products: some points, the outermost, and one near
    a footprint.

    Without series. None where the part has no points.
    """
    if not (folder / SAMPLE).exists():
        return None
    (track,) = read_points_table(folder / SAMPLE)
    return replace(track, epochs=epochs, displacement=np.zeros((len(track), 0), np.float32))


def without_series(track: Track) -> Track:
    """Return the points without epochs and without counts of dropped points."""
    empty = np.zeros((len(track), 0), np.float32)
    return replace(track, epochs=track.epochs[:0], displacement=empty, dropped={})


def _sample_rows(block: Track, one_in: int) -> NDArray[np.intp]:
    """Sample the points of some squares, the same for every product and release, and the
    block's outermost points."""
    east, north = (
        np.floor(x / SAMPLED_M).astype(np.int64) for x in (block.easting, block.northing)
    )
    # Teschner et al. 2003.
    chosen = np.flatnonzero((east * 73_856_093 ^ north * 19_349_663) % one_in == 0)
    ends = [f(x) for x in (block.easting, block.northing) if len(x) for f in (np.argmin, np.argmax)]
    return np.union1d(chosen, ends).astype(np.intp)


def _rows_near_footprints(block: Track, city: Path) -> NDArray[np.intp]:
    tree, box = _load_footprints(city)
    return points_near_footprints(block, tree, box, NEAR_M)


@lru_cache(maxsize=1)
def _load_footprints(city: Path) -> tuple[shapely.STRtree, NDArray[np.float64]]:
    polygons = shapely.from_wkb(
        pq.read_table(city / FOOTPRINTS)["wkb"].to_numpy(zero_copy_only=False)
    )
    return shapely.STRtree(polygons), shapely.total_bounds(polygons)


def _load_tiles(city: Path) -> Tiles:
    with np.load(city / TILES) as stored:
        return Tiles(float(stored["side_m"]), stored["cell"], stored["reach"])


class _TileWriter:
    """Collect points, and write them to files by tile."""

    def __init__(self, out: Path, part: Part) -> None:
        self.out, self.part, self.turn, self.bytes = out, part, 0, 0
        self.waiting: list[Track] = []
        self.counts: dict[str, dict[str, int]] = {POINTS: {}, HALO: {}}
        self.near: Track | None = None
        """One point near a footprint, without its series."""

    def add(self, block: Track) -> None:
        """Add a block; write the waiting points once they are many."""
        if len(block):
            self.waiting.append(block)
            self.bytes += block.displacement.nbytes
            if self.bytes > SPILL_BYTES:
                self.spill()

    def spill(self) -> None:
        """Write the waiting points, one file for each tile."""
        if not self.waiting:
            return
        city = self.part.city
        jobs: dict[tuple[str, int], list[tuple[Track, NDArray[np.intp]]]] = {}
        tiles = _load_tiles(city)
        for block in self.waiting:
            if self.near is None and len(near_rows := _rows_near_footprints(block, city)):
                self.near = without_series(block.take(near_rows[:1]))
            point_cell = cells(block.easting, block.northing, tiles.side_m)
            order = np.argsort(point_cell, kind="stable")
            starts = np.flatnonzero(np.r_[True, np.diff(point_cell[order]) > 0])
            for rows in np.split(order, starts[1:]):
                jobs.setdefault((POINTS, int(point_cell[rows[0]])), []).append((block, rows))
            for cell, rows in tiles.halo(block.easting, block.northing, point_cell):
                jobs.setdefault((HALO, cell), []).append((block, rows))
        with ThreadPoolExecutor(
            2
        ) as pool:  # encoding takes longer than parsing did, and lets other threads run
            list(pool.map(lambda job: self._write_tile(job[0], job[1], jobs[job]), jobs))
        self.waiting, self.bytes = [], 0
        self.turn += 1

    def _write_tile(
        self, kind: str, cell: int, pieces: Sequence[tuple[Track, NDArray[np.intp]]]
    ) -> None:
        tile = tile_name(cell)
        name = "-".join(f"{number:04d}" for number in (*self.part.number, self.turn))
        tracks = [block.take(rows) for block, rows in pieces]
        write_blocks([tracks], self.out / kind / tile / f"{name}.parquet")
        self.counts[kind][tile] = self.counts[kind].get(tile, 0) + sum(map(len, tracks))


STAGE = "ingest"
SAMPLED_BYTES = 2**26
"""Size of a product up to which all points are compared with other products, and of a sample of a
larger one."""


@dataclass(frozen=True)
class IngestPlan:
    """Plan of a run: the folder of its finished portions, and the portions with their settings."""

    work: dict[str, Path]
    """City -> folder."""
    cities: list[CityPlan]
    parts: list[Part]
    profiles: list[ProfileCity]
    """Cities of profile rows, which have no points."""


def plan_parts(cities: Sequence[Path], params: Ingest) -> IngestPlan:
    """Read footprints and labels of all cities, and cut the products into parts for `read_part`.

    Raises:
        InputError: as `ingest`, but for what only the points can show.
    """
    plan = cut_parts(cities, params)
    run_jobs(read_city, plan.cities, 1, "footprints")
    return plan


def cut_parts(cities: Sequence[Path], params: Ingest) -> IngestPlan:
    """Plan the parts, reading only the beginning of each file."""
    if not cities:
        raise InputError(
            "ingest: no city folder found. Make some with `plumbline simulate`, or put your own, "
            "a folder each, into data/raw (data/raw/README.md).",
            key="cities.no_folder",
        )
    rows = {
        folder: files
        for folder in cities
        if (files := find_profiles(folder, _params_of_city(folder, params)))
    }
    return cut_found(
        [find_files(folder) for folder in cities if folder not in rows], list(rows.values()), params
    )


def cut_found(
    point_cities: Sequence[CityFiles], rows: Sequence[ProfileFiles], params: Ingest
) -> IngestPlan:
    """Plan the parts of cities with known files: points and profile rows."""
    cities: list[CityFiles | ProfileFiles] = [*point_cities, *rows]
    names = [city.name for city in cities]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"ingest: two city folders are named {twice[0]}. Rename one.",
            key="cities.repeated_name",
        )
    code = [Path(__file__).parents[1]]
    city_params = {city.name: _params_of_city(city.folder, params) for city in cities}
    # One folder a city: a mended file of one does not have the others read again.
    work = {
        name: work_folder(
            STAGE, city.paths(city_params[name]), city_params[name].model_dump(mode="json"), code
        )
        for name, city in zip(city_params, cities, strict=True)
    }
    plans, parts = [], []
    for city in point_cities:
        settings = city_params[city.name]
        opened = open_products(city.products, settings)
        products, crs = [file for file, _ in opened], opened[0][1].crs
        plans.append(CityPlan(work[city.name] / "city", city, settings, products, crs))
        sampled = max(1, max(path.stat().st_size for path in city.products) // SAMPLED_BYTES)
        for product, file in enumerate(products):
            for number, span in enumerate(parts_of(file)):
                folder = work[city.name] / f"{product:04d}-{number:04d}"
                parts.append(
                    Part(
                        folder,
                        plans[-1].folder,
                        file,
                        crs,
                        (product, number),
                        span,
                        sampled,
                        settings,
                    )
                )
    return IngestPlan(
        work, plans, parts, [ProfileCity(work[city.name] / "city", city) for city in rows]
    )


def _params_of_city(folder: Path, params: Ingest) -> Ingest:
    """Return section `ingest` for a city folder: `products`, `footprints`, `crs` apply to
    the user's own files only.

    Simulated files state everything. A pattern that fits them too, as `*` does, and the names of a
    borrowed city's files, which are those of their originals, would move points off the footprints
    that they were made for.
    """
    return (
        params.model_copy(update={"products": {}, "footprints": {}, "crs": None})
        if is_simulated(folder)
        else params
    )
