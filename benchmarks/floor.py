"""The smallest strain that points of a building could show at all, and where the released model stands to it.

    python -m benchmarks.floor CITY... [--model PACKAGE] [--chart FILE.svg]

A city is a folder with points, footprints and `labels.csv`, as `benchmarks.makers.ninth` writes. The floor is the
Cramer-Rao bound of `prepare.response.floor`, for each of the shapes of damage. Prints Markdown.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.common import head, line, parse, parser, stamp
from benchmarks.heldout.judge import predicted
from benchmarks.makers.ninth.city import make_city
from plumbline.core.strain import FAILURES
from plumbline.params import Prepare
from plumbline.prepare.assignment.owners import collect_scatterers, find_owners
from plumbline.prepare.response.floor import RESOLVED, strain_bounds
from plumbline.prepare.response.rigid_body import rigid_design
from plumbline.prepare.response.shapes import ALL, MECHANISM
from plumbline.prepare.scatterers import rectangles
from plumbline.reporting.charts import Line, line_chart
from plumbline.sources.city.files import CityFiles, find_files
from plumbline.sources.city.in_memory import read_tracks
from plumbline.sources.footprints.buildings import read_buildings

Float = NDArray[np.floating]
BOUNDS = (6, 10, 15, 20, 30, 50, 80, 200)
"""Of groups of buildings, by their points."""
FEWEST_OF_GROUP = 20
NORMAL_MEAN = 0.798
"""Mean size of a normal error of standard deviation 1."""


class Floor(NamedTuple):
    """Of the F buildings of a city; NaN with too few points."""

    points: NDArray[np.int64]
    error: Float
    """(F, M) bound on the standard error of the strain, permille: median over the shapes of a mechanism."""


def floor_of(city: CityFiles, prepare: Prepare) -> tuple[NDArray[np.str_], Floor]:
    """Return the ids of a city's buildings, and their floor."""
    tracks = read_tracks(city.products)
    buildings = read_buildings(city.footprints, tracks[0].crs)
    footprints = np.asarray(buildings.geometry.values, dtype=object)
    found, frame = collect_scatterers(tracks, footprints, find_owners(tracks, footprints, prepare).of)
    points = np.bincount(found.building, minlength=len(footprints))
    error = np.full((len(footprints), len(FAILURES)), np.nan)
    for rectangle in rectangles(np.r_[0, np.cumsum(points)]):
        enough = points[rectangle.building] >= prepare.min_points + len(tracks)
        own, row, mask = rectangle.building[enough], rectangle.row[enough], rectangle.mask[enough]
        if len(own):
            xy, los = found.xy[row], found.los[row]
            rigid = rigid_design(xy, found.height[row], los, found.track[row])
            each = strain_bounds(xy, los, found.change_se[row], rigid, mask, frame.side[own], tuple(range(len(ALL))))
            error[own] = np.stack([np.median(each[:, number == MECHANISM], 1) for number in range(len(FAILURES))], 1)
    return buildings["building_id"].to_numpy().astype(str), Floor(points, error)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("floor", __doc__)
    asked.add_argument("cities", type=Path, nargs="*")
    asked.add_argument("--model", default="pretrained")
    asked.add_argument("--chart", type=Path, help="SVG to write: errors by the number of points")
    given = parse(asked, argv)
    with tempfile.TemporaryDirectory() as scratch:
        if given.smoke:
            given.cities = [Path(scratch) / "xband-smoke"]
            make_city(given.cities[0], "X", 60, 1)
        measure(given)


def measure(given: Namespace) -> None:
    """Print the table, and write the chart."""
    print(f"{stamp()}. Permille. *Could show*: {RESOLVED} bounds. *Resolution*: median of the column.\n")
    columns = ("mechanism or points", "buildings", "bound", "could show", "resolution", "error at bound", "ours")
    print(head("city", *columns))
    lines = []
    for path in given.cities:
        table = with_answers(path, given.model)
        damaged = table[(table["truth"] >= 0.5) & (table["status"] == "ok")]
        for name in FAILURES:
            say(path.name, name, table, damaged[damaged["kind"] == name], [f"bound_{name}"])
        columns, drawn = [f"bound_{name}" for name in FAILURES], []
        for low, high in pairwise(BOUNDS):
            group = table[table["n_points"].between(low, high - 1)]
            own = damaged[damaged["n_points"].between(low, high - 1)]
            if len(own) >= FEWEST_OF_GROUP:
                x = float(own["n_points"].median())
                drawn.append((x, *say(path.name, f"{low} to {high - 1} points", group, own, columns)))
        lines += [
            Line(f"{path.name}: the model", [(x, ours) for x, _, ours in drawn]),
            Line(f"{path.name}: bound", [(x, bound) for x, bound, _ in drawn], dashed=True),
        ]
    if given.chart:
        words = ("Mean error of the severity of damaged buildings", "points of the building", "permille")
        given.chart.write_text(line_chart(*words, lines, x_range=(0.0, 100.0), y_range=(0.0, 2.5)), encoding="utf-8")


def with_answers(path: Path, model: str) -> pd.DataFrame:
    """What the model says of a city's buildings, beside their bounds and the truth."""
    city = find_files(path)
    ids, floor = floor_of(city, Prepare())
    of_floor = pd.DataFrame(floor.error, ids, [f"bound_{name}" for name in FAILURES])
    labels = pd.read_csv(path / "labels.csv", dtype={"building_id": str}).set_index("building_id")
    truth = labels[["severity_permille", "mechanism"]].set_axis(["truth", "kind"], axis=1)
    return predicted(city, model).set_index("building_id").join(of_floor).join(truth)


def say(city: str, name: str, table: pd.DataFrame, own: pd.DataFrame, columns: list[str]) -> tuple[float, float]:
    """Print a line of the table; return the mean error at the bound, and the model's.

    Args:
        table: the buildings whose bound is stated. own: the damaged and judged ones of them. columns: of the bounds.
    """
    bound = float(np.nanmedian(table[columns].to_numpy(float)))
    resolution = float(table["strain_resolution_permille"].median())
    known = own[columns].to_numpy(float)
    at_bound = NORMAL_MEAN * float(known[np.isfinite(known)].mean())
    ours = float((own["severity_permille"] - own["truth"]).abs().mean())
    figures = (bound, RESOLVED * bound, resolution, at_bound, ours)
    print(line(city, name, len(own), *(f"{figure:.2f}" for figure in figures)))
    return at_bound, ours


if __name__ == "__main__":
    main()
