"""How the cost of `plumbline predict` grows, beside the time that pyarrow.csv takes to parse the same files.

    python -m benchmarks.predict [--buildings 1000 5000 20000] [--plot growth.png]

A simulated Sentinel-1 city of two tracks, five years and 12 days; then one of its sizes is varied at a time: buildings,
scatterers a building (drawn, or repeated up to 2 m away), epochs, tracks (repeated under other numbers). CPU seconds
are of all processes. The exponent is the slope of the logarithms from the first to the last row of a size: 1 grows as
the input does.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common import head, line, parse, parser, stamp, watched
from benchmarks.data import best_of_turns, floor
from plumbline.params import Simulate
from plumbline.simulate.stage import simulate

YEARS, REVISIT_DAYS, BUILDINGS = 5.0, 9, 1_000
"""Of the city that is varied."""
VARIED = {"scatterers a building": (0.4, 1.0, 4.0, 15.0), "epochs": (30, 9, 4), "tracks": (1, 2, 4, 6)}
"""Name of a size -> factors on the scatterers, days between epochs, numbers of tracks."""
SMOKE = {"scatterers a building": (0.7, 1.0), "tracks": (1, 2)}


class Cost(NamedTuple):
    """What one city costs."""

    size: float
    points: int
    parse_s: float
    wall_s: float
    cpu_s: float
    peak_mb: float


def make_city(folder: Path, buildings: int, revisit_days: int = REVISIT_DAYS) -> Path:
    """Return the folder of a simulated city."""
    town = {"band": "C", "buildings": buildings, "seed": 1, "revisit_days": revisit_days, "movement": "town"}
    settings = {"cities": {"town": town}, "showcase": {**town, "buildings": 4, "seed": 2}, "years": YEARS}
    simulate(Simulate.model_validate(settings), folder)
    return folder / "cities" / "town"


def repeat_scatterers(city: Path, factor: float) -> None:
    """Draw a share of the scatterers, or repeat them, each up to 2 m from where it was."""
    rng = np.random.default_rng(0)
    for path in products(city):
        table = pd.read_csv(path, dtype={"pid": str})
        count = round(factor * len(table))
        rows = np.sort(rng.permutation(len(table))[:count] if factor <= 1 else rng.integers(0, len(table), count))
        table = table.iloc[rows]
        if factor > 1:
            table["pid"] = [f"{number:010d}" for number in range(count)]
            move(table, rng)
        table.to_csv(path, index=False)


def repeat_tracks(city: Path, tracks: int) -> None:
    """Leave so many products of the city, repeated under other numbers of tracks."""
    files = products(city)
    for number in range(tracks, len(files)):
        files[number].unlink()
    for number in range(len(files), tracks):
        parts = files[number % len(files)].name.split("_")
        parts[2] = f"{100 + number:03d}"
        table = pd.read_csv(files[number % len(files)], dtype={"pid": str})
        move(table, np.random.default_rng(number))  # the same places twice would be refused
        table.to_csv(city / "_".join(parts), index=False)


def move(table: pd.DataFrame, rng: np.random.Generator) -> None:
    """Move scatterers by up to 2 m along each axis."""
    for column in ("easting", "northing"):
        table[column] += rng.uniform(-2, 2, len(table)).round(2)


def products(city: Path) -> list[Path]:
    """Return the files of points of a city."""
    return sorted(city.glob("EGMS*.csv"))


def measure(city: Path, size: float) -> Cost:
    """Parse a city, and judge it."""
    parse_s = best_of_turns({"floor": lambda: floor(city)}, 2)["floor"]
    points = sum(path.read_bytes().count(b"\n") - 1 for path in products(city))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall_s, peak_mb = predicted(city)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(size, points, parse_s, wall_s, cpu_s, peak_mb)


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


def varied(name: str, buildings: int, value: float) -> Cost:
    """Make a city with one size varied, and measure it in an empty folder."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        city = make_city(Path("simulated"), buildings, int(value) if name == "epochs" else REVISIT_DAYS)
        if name == "scatterers a building":
            repeat_scatterers(city, value)
        if name == "tracks":
            repeat_tracks(city, int(value))
        cost = measure(city, value)
        sizes = {
            "buildings": value,
            "scatterers a building": cost.points / buildings,
            "epochs": YEARS * 365.25 / value,
            "tracks": value,
        }
        return cost._replace(size=sizes[name])


def rows(name: str, costs: Sequence[Cost]) -> Iterator[str]:
    """Yield a table of one size, the last row with the exponents."""
    yield head(name, "scatterers", "parse, s", "predict, s", "ratio", "CPU, s", "peak, MB")
    for cost in costs:
        ratio = cost.wall_s / cost.parse_s
        figures = (
            f"{cost.parse_s:.2f}",
            f"{cost.wall_s:.1f}",
            f"{ratio:.1f}",
            f"{cost.cpu_s:.1f}",
            f"{cost.peak_mb:,.0f}",
        )
        yield line(f"{cost.size:,.0f}", f"{cost.points:,}", *figures)
    exponents = [f"{exponent(costs, field):.2f}" for field in ("points", "parse_s", "wall_s", "cpu_s", "peak_mb")]
    yield line("exponent", *exponents[:3], "", *exponents[3:])


def exponent(costs: Sequence[Cost], field: str) -> float:
    """Return the slope of the logarithm of a cost by that of the size, from the first to the last row."""
    (first, last), sizes = (getattr(costs[k], field) for k in (0, -1)), (costs[0].size, costs[-1].size)
    return float(np.log(last / first) / np.log(sizes[1] / sizes[0]))


def plot(costs: dict[str, list[Cost]], out: Path) -> None:
    """Draw CPU seconds and memory by each size, all relative to its first row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, field, label in zip(figure.subplots(1, 2), ("cpu_s", "peak_mb"), ("CPU time", "memory"), strict=True):
        for name, found in costs.items():
            times, values = (
                [getattr(cost, part) / getattr(found[0], part) for cost in found] for part in ("size", field)
            )
            axes.loglog(times, values, marker="o", label=name)
        ends = np.array(axes.get_xlim())
        axes.loglog(ends, ends, color="grey", linestyle=":", label="as the input")
        axes.set(xlabel="input, in its smallest", ylabel=f"{label}, in that of the smallest")
    axes.legend()
    figure.savefig(out, dpi=110)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("predict", __doc__)
    asked.add_argument("--buildings", type=int, nargs="+", default=[1_000, 5_000, 20_000])
    asked.add_argument("--plot", type=Path, help="PNG file of CPU time and memory by each size")
    given = parse(asked, argv, buildings=[60, 90])
    print(f"{stamp()}\n")
    base = min(BUILDINGS, *given.buildings)
    asked_sizes = {"buildings": tuple(given.buildings), **(SMOKE if given.smoke else VARIED)}
    costs: dict[str, list[Cost]] = {}
    for name, values in asked_sizes.items():
        costs[name] = [varied(name, int(value) if name == "buildings" else base, value) for value in values]
        print("\n".join(rows(name, costs[name])) + "\n", flush=True)
    if given.plot:
        plot(costs, given.plot)


if __name__ == "__main__":
    main()
