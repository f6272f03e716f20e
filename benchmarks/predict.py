"""Time and memory of `plumbline predict` on large cities: a simulated one, many times beside itself, in Parquet.

`python -m benchmarks.predict [BUILDINGS ...]` prints Markdown; `docs/benchmarks` keeps dated copies.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from benchmarks.common import head, line, parse, parser, stamp, watched
from benchmarks.data import make_city

CRS, APART_M = 3035, 300.0
ONE, POINTS = 5_000, 14.2
"""Buildings of the city that is simulated, and points of a building in all tracks together."""
ASTRAY_M = 6.0
"""Further points are copies of others, moved by up to this."""


def copy_city(city: Path, copies: int, out: Path) -> int:
    """Write a city's footprints and products `copies` times, on a square grid; return the number of points."""
    footprints = geopandas.read_file(city / "footprints.geojson").to_crs(CRS)
    west, south, east, north = footprints.total_bounds
    side = int(np.ceil(np.sqrt(copies)))
    by = [np.array(divmod(number, side)) * (max(east - west, north - south) + APART_M) for number in range(copies)]
    parts = [
        footprints.assign(
            geometry=footprints.translate(*move), building_id=[f"{name}_{number}" for name in footprints["building_id"]]
        )
        for number, move in enumerate(by)
    ]
    geopandas.GeoDataFrame(pd.concat(parts, ignore_index=True), crs=CRS).to_file(out / "footprints.gpkg")
    products = sorted(city.glob("EGMS*.csv"))
    wanted = int(len(footprints) * POINTS / len(products))
    for path in products:
        _copy_product(path, wanted, by, out / f"{path.stem}.parquet")
    return wanted * len(products) * copies


def _copy_product(path: Path, wanted: int, by: Sequence[np.ndarray], out: Path) -> None:
    rng, table = np.random.default_rng(0), pacsv.read_csv(path)
    more = rng.choice(len(table), max(0, wanted - len(table)))
    table = table.take(pa.array(np.r_[: len(table), more][:wanted]))
    astray = np.zeros((wanted, 2))
    astray[len(table) - len(more) :] = rng.uniform(-ASTRAY_M, ASTRAY_M, (len(more), 2))
    values = {name: table[name].cast(pa.float32()) if name.isdigit() else table[name] for name in table.column_names}
    with contextlib.ExitStack() as held:
        writer = None
        for number, move in enumerate(by):
            values["pid"] = pa.array([f"{number:03x}{row:08x}" for row in range(wanted)])
            for axis, name in enumerate(("easting", "northing")):
                values[name] = pa.array(table[name].to_numpy() + astray[:, axis] + move[axis])
            part = pa.table(values)
            writer = writer or held.enter_context(pq.ParquetWriter(out, part.schema))
            writer.write_table(part, 1 << 16)


def predicted(city: Path) -> tuple[float, float, float]:
    """Return seconds of the processor and of the clock, and peak memory, MB, of the command.

    Raises:
        RuntimeError: it failed.
    """
    points = [word for path in sorted(city.glob("*.parquet")) for word in ("--points", path)]
    command = [sys.executable, "-m", "plumbline", "predict", *points, "--buildings", city / "footprints.gpkg"]
    path = os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part)
    before = os.times()
    seconds, memory, code = watched(
        [*command, "--output", city / "out.csv"], env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.DEVNULL
    )
    if code:
        raise RuntimeError(f"plumbline predict ended with {code}")
    now = os.times()
    busy = now.children_user + now.children_system - before.children_user - before.children_system
    return busy, seconds, memory


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("predict", __doc__)
    asked.add_argument("buildings", type=int, nargs="*", default=[50_000, 200_000])
    given = parse(asked, argv, buildings=[100, 200])
    print(f"{stamp()}\n\n" + head("buildings", "points", "processor, s", "clock, s", "peak, MB"), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        one = min(ONE, *given.buildings)
        _, city = make_city(one, Path(temporary, "one"))
        for count in given.buildings:
            with tempfile.TemporaryDirectory(dir=temporary) as folder:
                points = copy_city(city, -(-count // one), Path(folder))
                busy, seconds, memory = predicted(Path(folder))
            print(line(f"{count:,}", f"{points:,}", f"{busy:.0f}", f"{seconds:.0f}", f"{memory:,.0f}"), flush=True)


if __name__ == "__main__":
    main()
