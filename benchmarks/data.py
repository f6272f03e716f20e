"""`ingest` and `prepare` beside the floor, and `predict`, on simulated cities of several sizes, in one run.

The floor of `ingest`: pyarrow.csv parses the same files into typed columns, and nothing else. The stages run with one
process a core; `predict` is the command, by the package that ships. `python -m benchmarks.data [BUILDINGS ...]` prints
Markdown; `docs/benchmarks` keeps dated copies.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv

from benchmarks.common import head, line, parse, parser, stamp, watched
from plumbline.params import Ingest, Prepare, Simulate
from plumbline.prepare.stage import prepare
from plumbline.simulate.stage import simulate
from plumbline.sources.city.ingest import ingest

YEARS = 5.0
TEXT = ("pid", "mp_type")


def floor(city: Path) -> None:
    """Parse the files, and nothing else."""
    for path in sorted(city.glob("EGMS*.csv")):
        names = path.open().readline().strip().split(",")
        types = {name: pa.float32() if name.isdigit() else pa.float64() for name in names if name not in TEXT}
        pacsv.read_csv(path, convert_options=pacsv.ConvertOptions(column_types=types))


def make_city(buildings: int, folder: Path) -> tuple[float, Path]:
    """Return megabytes of csv, and the folder of a simulated city."""
    town = {"band": "C", "buildings": buildings, "seed": 1}
    showcase = {"band": "C", "buildings": 4, "seed": 2}
    settings = {"cities": {"town": town}, "showcase": showcase, "years": YEARS}
    simulate(Simulate.model_validate(settings), folder)
    city = folder / "cities" / "town"
    return sum(path.stat().st_size for path in city.glob("EGMS*.csv")) / 1e6, city


def best_of_turns(work: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Return the seconds of each, turn by turn, so that a slow minute of the machine meets all of them."""
    seconds: dict[str, float] = {}
    next(iter(work.values()))()  # the files are in the system's cache for all
    for _ in range(turns):
        for name, one in work.items():
            began = time.perf_counter()
            one()
            took = time.perf_counter() - began
            seconds[name] = min(took, seconds.get(name, took))
    return seconds


def predicted(city: Path) -> tuple[float, float]:
    """Return seconds and peak memory, MB, of `plumbline predict` on the files of a city.

    Raises:
        RuntimeError: it failed.
    """
    points = [word for path in sorted(city.glob("EGMS*.csv")) for word in ("--points", path)]
    command = [sys.executable, "-m", "plumbline", "predict", *points, "--buildings", city / "footprints.geojson"]
    path = os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part)
    environment = {**os.environ, "PYTHONPATH": path}
    seconds, memory, code = watched([*command, "--output", "out.parquet"], env=environment, stderr=subprocess.DEVNULL)
    if code:
        raise RuntimeError(f"plumbline predict ended with {code}")
    return seconds, memory


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("data", __doc__)
    asked.add_argument("buildings", type=int, nargs="*", default=[4_000, 16_000, 48_000])
    asked.add_argument("--turns", type=int, default=3)
    given = parse(asked, argv, buildings=[90, 100], turns=1)
    print(f"{stamp()}\n")
    columns = "buildings", "csv, MB", "floor, s", "ingest, s", "ratio, at most 2", "prepare, s", "buildings/s of both"
    print(head(*columns, "predict, s", "over the floor, at most 12", "peak, MB, at most 650"))
    for count in given.buildings:
        with tempfile.TemporaryDirectory() as temporary, contextlib.chdir(temporary):
            size, city = make_city(count, Path("simulated"))
            work = {
                "floor": lambda city=city: floor(city),
                "ingest": lambda city=city: ingest([city], Ingest(), Path("ingested")),
                "prepare": lambda: prepare(Path("ingested"), Prepare(), Path("prepared")),
            }
            took = best_of_turns(work, given.turns)
            predict_s, peak_mb = predicted(city)
        ratio, both = took["ingest"] / took["floor"], took["ingest"] + took["prepare"]
        seconds = f"{took['floor']:.2f}", f"{took['ingest']:.2f}", f"{ratio:.2f}", f"{took['prepare']:.2f}"
        predicted_cells = f"{predict_s:.1f}", f"{predict_s / took['floor']:.1f}", f"{peak_mb:,.0f}"
        cells = *seconds, f"{count / both:,.0f}", *predicted_cells
        print(line(f"{count:,}", f"{size:,.1f}", *cells), flush=True)


if __name__ == "__main__":
    main()
