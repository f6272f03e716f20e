"""`ingest` and `prepare` beside the floor and beside what people do now, on one simulated city, in one run.

(a) The floor of `ingest`: pyarrow.csv parses the same files into typed columns, and nothing else.
(b) What people do now: pandas reads the files, geopandas joins points to footprints, a loop goes over the buildings.
    The numbers of a building are computed by the project's own functions, called for one building at a time: so the
    results must be equal, and what is compared is the way of working.
(c) The stages `ingest` and `prepare`, with one process a core.

Prints Markdown; `docs/benchmarks` keeps dated copies. `python benchmarks/data.py [BUILDINGS]`
"""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv

from plumbline.params import Ingest, Prepare, Simulate
from plumbline.prepare.buildings import prepare_buildings
from plumbline.prepare.features.sequences import Sequences, concatenate
from plumbline.prepare.features.shards import load_shards
from plumbline.prepare.stage import plan_tiles, prepare
from plumbline.prepare.tile import prepare_tile
from plumbline.simulate.stage import simulate
from plumbline.sources.ingest.parts import plan_parts, read_part
from plumbline.sources.ingest.stage import ingest
from plumbline.sources.track import Track

BUILDINGS = 4_000
LARGER = (16_000, 48_000)
"""Cities for (a) and `ingest` alone: a loop over their buildings would take hours. Fixed costs weigh less in them."""
TURNS = 3
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


def loop(city: Path) -> Sequences:
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
        tables.append((path.stem, dict(iter(joined.groupby("building_id"))), frame))
    parts = []
    for row in range(len(footprints)):
        building = footprints.iloc[[row]]
        name = building["building_id"].iloc[0]
        if name not in labels.index:
            continue
        tracks = [one_track(stem, groups.get(name, frame.iloc[:0])) for stem, groups, frame in tables]
        prepared = prepare_buildings(tracks, building, PREPARE, city.name)
        if len(prepared.sequences):
            parts.append(prepared.sequences)
    return concatenate(parts)


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
    """Of any value, over the larger of 1 and its size; infinite where buildings differ."""
    order = np.argsort(other.building_id)[np.argsort(np.argsort(one.building_id))]
    again = other.take(order)
    if one.building_id.tolist() != again.building_id.tolist() or one.offsets.tolist() != again.offsets.tolist():
        return float("inf")
    differences = []
    for name in ARRAYS:
        a, b = np.asarray(getattr(one, name), float), np.asarray(getattr(again, name), float)
        differences.append(np.abs(a - b) / np.maximum(1, np.abs(a)))
    return float(max(values.max() for values in differences))


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


def best_of_turns(work: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds of each, turn by turn, so that a slow minute of the machine meets all of them."""
    seconds: dict[str, float] = {}
    next(iter(work.values()))()  # the files are in the system's cache for all
    for _ in range(TURNS):
        for name, one in work.items():
            took, _ = timed(one)
            seconds[name] = min(took, seconds.get(name, took))
    return seconds


def main() -> None:
    """Measure and print."""
    buildings = int(sys.argv[1]) if len(sys.argv) > 1 else BUILDINGS
    cores = len(os.sched_getaffinity(0))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    with tempfile.TemporaryDirectory() as temporary:
        os.chdir(temporary)
        larger = []
        for count in LARGER:
            megabytes, city = make_city(count, Path(f"simulated-{count}"))
            larger.append((count, megabytes, best_of_turns(floor_and_ingest(city))))
        size, city = make_city(buildings, Path("simulated"))
        work = {**floor_and_ingest(city), "prepare": lambda: prepare(Path("ingested"), PREPARE, Path("prepared"))}
        seconds = best_of_turns(work)
        inner = {
            "read and write the parts, one process": timed(
                lambda: [read_part(part) for part in plan_parts([city], Ingest()).parts]
            )[0],
            "prepare the tiles, one process": timed(
                lambda: [prepare_tile(tile) for tile in plan_tiles(Path("ingested"), PREPARE).tiles]
            )[0],
        }
        seconds["loop"], result = timed(lambda: loop(city))
        ours = concatenate([part for name in PREPARE.split for part in load_shards(Path("prepared") / name).parts])
        difference = largest_difference(result, ours)
        points = int(result.offsets[-1])
    both = seconds["ingest"] + seconds["prepare"]
    print(f"{datetime.date.today()}, {cores} cores {platform.machine()}, commit {commit.stdout.strip() or 'unknown'}\n")
    print(f"{buildings:,} buildings, {size:,.0f} MB of csv in 2 tracks, {points:,} points on judged buildings.\n")
    print("| | s | ratio | bar |\n|---|---|---|---|")
    print(f"| (a) floor: pyarrow.csv parses the files | {seconds['floor']:.2f} | 1 | |")
    print(f"| (c) ingest | {seconds['ingest']:.2f} | {seconds['ingest'] / seconds['floor']:.2f} x (a) | at most 2 |")
    print(f"| (c) prepare | {seconds['prepare']:.2f} | | |")
    print(f"| (c) ingest and prepare | {both:.2f} | 1 | |")
    print(f"| (b) pandas, sjoin, loop | {seconds['loop']:.2f} | {seconds['loop'] / both:.1f} x (c) | at least 8 |")
    print(f"\nLargest difference of a value between (b) and (c), relative above 1: {difference:.1e}.\n")
    for name, took in inner.items():
        print(f"- {name}: {took:.2f} s")
    print("\n| buildings | csv, MB | floor, s | ingest, s | ratio, at most 2 |\n|---|---|---|---|---|")
    for count, megabytes, took in [*larger, (buildings, size, seconds)]:
        ratio = took["ingest"] / took["floor"]
        print(f"| {count:,} | {megabytes:,.0f} | {took['floor']:.2f} | {took['ingest']:.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
