"""`ingest` and `prepare` beside the floor and beside what people do now, on one simulated city, in one run.

(a) The floor of `ingest`: pyarrow.csv parses the same files into typed columns, and nothing else.
(b) What people do now: pandas reads the files, geopandas joins points to footprints, a loop goes over the buildings.
    The numbers of a building are computed by the project's own functions, called for one building at a time; so is
    the owner of the points between it and its neighbours. It does all of what (c) does, the results must be equal, and
    what is compared is the way of working.
(c) The stages `ingest` and `prepare`, with one process a core.

`python -m benchmarks.data [BUILDINGS]` prints Markdown; `docs/benchmarks` keeps dated copies. Where (b) and (c) differ,
it says by what and ends with 1.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import shapely

from benchmarks.common import head, line, parse, parser, stamp
from plumbline.params import Ingest, Prepare, Simulate
from plumbline.prepare.assignment.nearest import NEAR_M, UNASSIGNED
from plumbline.prepare.assignment.owners import Owners, find_owners
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.features.sequences import Sequences, concatenate
from plumbline.prepare.features.shards import load_shards
from plumbline.prepare.stage import plan_tiles, prepare
from plumbline.prepare.tiles import write_tile
from plumbline.simulate.stage import simulate
from plumbline.sources.city.ingest import ingest
from plumbline.sources.city.parts import plan_parts, read_part
from plumbline.sources.points.track import Track

MOST_DIFFERENT = 1e-6
"""Sums in another order; not another point on a building."""
YEARS = 5.0
PREPARE = Prepare()
LOS = ["los_east", "los_north", "los_up"]
ARRAYS = ("distance", "slope", "geometry")


def floor(city: Path) -> None:
    """(a)"""
    for path in sorted(city.glob("EGMS*.csv")):
        names = path.open().readline().strip().split(",")
        types = {name: pa.float32() if name.isdigit() else pa.float64() for name in names if name not in TEXT}
        pacsv.read_csv(path, convert_options=pacsv.ConvertOptions(column_types=types))


TEXT = ("pid", "mp_type")


class Looped(NamedTuple):
    """What the loop made of a city."""

    sequences: Sequences
    contested: int
    """Buildings with another so near that a point may be either's."""
    asking_s: float
    """Time spent on whose those points are."""


def loop(city: Path) -> Looped:
    """(b)"""
    footprints = geopandas.read_file(city / "footprints.geojson").to_crs("EPSG:3035")
    labels = pd.read_csv(city / "labels.csv").set_index("building_id")
    tables = []
    for path in sorted(city.glob("EGMS*.csv")):
        frame = pd.read_csv(path)
        points = geopandas.GeoDataFrame(
            frame, geometry=geopandas.points_from_xy(frame["easting"], frame["northing"]), crs="EPSG:3035"
        )
        joined = geopandas.sjoin_nearest(points, footprints[["building_id", "geometry"]], max_distance=PREPARE.buffer_m)
        joined = joined.drop_duplicates("pid")
        tables.append((path.stem, dict(iter(joined.groupby("building_id"))), frame.iloc[:0]))
    shapes, names = footprints.geometry.to_numpy(), footprints["building_id"].to_numpy()
    tree = shapely.STRtree(shapes)
    parts, contested, asking_s = [], 0, 0.0
    for row, name in enumerate(names):
        if name not in labels.index:
            continue
        group, owners = np.array([row]), None
        if len(tree.query(shapes[row], "dwithin", 2 * PREPARE.buffer_m)) > 1:
            # Whoever has a point within `NEAR_M` of this building stands within that and the buffer.
            group = np.sort(tree.query(shapes[row], "dwithin", NEAR_M + PREPARE.buffer_m))
            contested += 1
        tracks = [
            one_track(stem, pd.concat([groups.get(names[one], none) for one in group]).sort_index())
            for stem, groups, none in tables
        ]
        if len(group) > 1:
            began = time.perf_counter()
            found = find_owners(tracks, shapes[group], PREPARE)
            own = int(np.flatnonzero(group == row)[0])
            owners = Owners([np.where(of == own, 0, UNASSIGNED) for of in found.of], found.moved)
            asking_s += time.perf_counter() - began
        prepared = prepare_buildings(tracks, footprints.iloc[[row]], PREPARE, city.name, owners)
        if len(prepared.sequences):
            parts.append(prepared.sequences)
    return Looped(concatenate(parts), contested, asking_s)


def one_track(name: str, rows: pd.DataFrame) -> Track:
    """The points of one building in one track."""
    days = [column for column in rows.columns if column.isdigit()]
    return Track(
        name=name,
        crs="EPSG:3035",
        epochs=np.array([f"{day[:4]}-{day[4:6]}-{day[6:]}" for day in days], "datetime64[D]"),
        point_id=rows["pid"].to_numpy(object),
        easting=rows["easting"].to_numpy(float),
        northing=rows["northing"].to_numpy(float),
        height=rows["height_ortho"].to_numpy(float),
        los=rows[LOS].to_numpy(float),
        displacement=rows[days].to_numpy(np.float32),
    )


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and the result."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def largest_difference(one: Sequences, other: Any) -> float:
    """Of any value, over the larger of 1 and its size; infinite where buildings or their points differ."""
    if sorted(one.building_id) != sorted(other.building_id):
        return float("inf")
    again = other.take(np.argsort(other.building_id)[np.argsort(np.argsort(one.building_id))])
    if one.offsets.tolist() != again.offsets.tolist():
        return float("inf")
    differences = []
    for name in ARRAYS:
        a, b = np.asarray(getattr(one, name), float), np.asarray(getattr(again, name), float)
        differences.append(np.abs(a - b) / np.maximum(1, np.abs(a)))
    return float(max(values.max() for values in differences))


def differing(one: Sequences, other: Any) -> list[str]:
    """Return the names of the buildings that only one has, or with another number of points."""
    lengths = [dict(zip(said.building_id, np.asarray(said.length), strict=True)) for said in (one, other)]
    names = sorted(lengths[0].keys() | lengths[1].keys())
    return [name for name in names if lengths[0].get(name) != lengths[1].get(name)]


def make_city(buildings: int, folder: Path) -> tuple[float, Path]:
    """Megabytes of csv, and the folder of a simulated city."""
    town = {"band": "C", "buildings": buildings, "seed": 1}
    showcase = {"band": "C", "buildings": 4, "seed": 2}
    settings = {"cities": {"town": town}, "showcase": showcase, "years": YEARS}
    simulate(Simulate.model_validate(settings), folder)
    city = folder / "cities" / "town"
    return sum(path.stat().st_size for path in city.glob("EGMS*.csv")) / 1e6, city


def floor_and_ingest(city: Path) -> dict[str, Callable[[], Any]]:
    """What is measured on a city of any size."""
    return {"floor": lambda: floor(city), "ingest": lambda: ingest([city], Ingest(), Path("ingested"))}


def best_of_turns(work: dict[str, Callable[[], Any]], turns: int) -> dict[str, float]:
    """Seconds of each, turn by turn, so that a slow minute of the machine meets all of them."""
    seconds: dict[str, float] = {}
    next(iter(work.values()))()  # the files are in the system's cache for all
    for _ in range(turns):
        for name, one in work.items():
            took, _ = timed(one)
            seconds[name] = min(took, seconds.get(name, took))
    return seconds


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("data", __doc__)
    asked.add_argument("buildings", type=int, nargs="?", default=4_000)
    asked.add_argument(
        "--larger",
        type=int,
        nargs="*",
        default=[16_000, 48_000],
        help="cities for (a) and `ingest` alone, in which fixed costs weigh less: a loop over them would take hours",
    )
    asked.add_argument("--turns", type=int, default=3)
    given = parse(asked, argv, buildings=90, larger=[60], turns=1)
    with tempfile.TemporaryDirectory() as temporary, contextlib.chdir(temporary):
        sizes = []
        for count in given.larger:
            megabytes, city = make_city(count, Path(f"simulated-{count}"))
            sizes.append((count, megabytes, best_of_turns(floor_and_ingest(city), given.turns)))
        size, city = make_city(given.buildings, Path("simulated"))
        work = {**floor_and_ingest(city), "prepare": lambda: prepare(Path("ingested"), PREPARE, Path("prepared"))}
        seconds = best_of_turns(work, given.turns)
        sizes.append((given.buildings, size, seconds))
        inner = {
            "read and write the parts, one process": timed(
                lambda: [read_part(part) for part in plan_parts([city], Ingest()).parts]
            )[0],
            "prepare the tiles, one process": timed(
                lambda: [write_tile(tile) for tile in plan_tiles(Path("ingested"), PREPARE).tiles]
            )[0],
        }
        looped_s, looped = timed(lambda: loop(city))
        ours = concatenate([part for name in PREPARE.split for part in load_shards(Path("prepared") / name).parts])
    both = seconds["ingest"] + seconds["prepare"]
    difference = largest_difference(looped.sequences, ours)
    print(f"{stamp()}\n")
    print(f"{given.buildings:,} buildings, {size:,.0f} MB of csv in 2 tracks, ", end="")
    print(f"{int(looped.sequences.offsets[-1]):,} points on {len(looped.sequences):,} judged buildings.\n")
    print(head("", "s", "ratio", "bar"))
    print(line("(a) floor: pyarrow.csv parses the files", f"{seconds['floor']:.2f}", 1, ""))
    ratio = seconds["ingest"] / seconds["floor"]
    print(line("(c) ingest", f"{seconds['ingest']:.2f}", f"{ratio:.2f} x (a)", "at most 2"))
    print(line("(c) prepare", f"{seconds['prepare']:.2f}", "", ""))
    print(line("(c) ingest and prepare", f"{both:.2f}", 1, ""))
    print(line("(b) pandas, sjoin, loop", f"{looped_s:.2f}", f"{looped_s / both:.1f} x (c)", "at least 8"))
    short = looped_s - looped.asking_s
    print(line("(b) without asking whose points are", f"{short:.2f}", f"{short / both:.1f} x (c)", ""))
    print(f"\n(b) does all of what (c) does: {looped.contested:,} buildings have another so near that a point may be")
    print("either's, and the loop asks for each of them whose it is by its movement, as `prepare` does for a tile.")
    print(f"Largest difference of a value between (b) and (c), relative above 1: {difference:.1e}.\n")
    for name, took in inner.items():
        print(f"- {name}: {took:.2f} s")
    print("\n" + head("buildings", "csv, MB", "floor, s", "ingest, s", "ratio, at most 2"))
    for count, megabytes, took in sizes:
        ratio = took["ingest"] / took["floor"]
        cells = f"{megabytes:,.1f}", f"{took['floor']:.2f}", f"{took['ingest']:.2f}", f"{ratio:.2f}"
        print(line(f"{count:,}", *cells))
    if difference > MOST_DIFFERENT:
        odd = differing(looped.sequences, ours)
        sys.exit(f"(b) and (c) differ by {difference:.1e}, at most {MOST_DIFFERENT:g}; by their points: {odd[:9]}")


if __name__ == "__main__":
    main()
