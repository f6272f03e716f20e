"""Ask whether a field is of use where points are few: moving areas, and buildings that move against their neighbours.

python -m benchmarks.restoration.use [--scenes DIR ...] [--densities N ...] [--options "..."]

Scenes are named DOMAIN-SEED, as `plain-1`, and made if they are not there. Points are thinned to each density, a square
kilometre and track. Both answers come from the same points: that of `plumbline restore --areas --buildings`, and
that of `predict`, from the points alone. `still` is the answer that nothing moves against its neighbours.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import geopandas
import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray
from scipy.ndimage import label

from benchmarks.common import head, line, parse, parser, refusing, stamp
from benchmarks.makers.fields.movements import Movement, total
from benchmarks.makers.fields.scene import draw_ground, make_scene
from benchmarks.makers.fields.settings import CRS, ORIGIN, SIDE_M
from benchmarks.makers.fields.town import Town
from benchmarks.restoration.fields import Truth, read_truth, restore
from benchmarks.restoration.hold_out import read_lines
from benchmarks.restoration.metrics import Z90
from plumbline.params import Prepare
from plumbline.prepare.assignment.owners import footprint_middle
from plumbline.prepare.buildings import prepare_buildings
from plumbline.serve.place.moving_areas import moving_areas
from plumbline.serve.place.surroundings import Comparable, comparable, medians_around, whole_columns
from plumbline.sources.city.in_memory import read_tracks

Array = NDArray[np.float64]
USUAL, DENSITIES = tuple(f"plain-{seed}" for seed in (1, 2, 3, 4)), (1500, 300, 100)
MOVES_MM, STILL_MM, FEWEST = 5.0, 2.0, 5
"""From where on a place counts as moving, and up to where as still; and cells of a place that moves."""
FIELD, POINTS, STILL = "field", "points", "still"
OWN = (("0", 0, 0), ("1 or 2", 1, 2), ("3 or more", 3, 10**9))
"""Groups of buildings by their own points: name, fewest, most."""


class Areas(NamedTuple):
    """How well moving areas were found in a scene."""

    found: int
    false: int
    """Areas in the median of which nothing moves."""
    places: int
    """Connected cells that move."""
    hit: int
    moving: float
    """Cells that move; those of them, all, and those that are still, in an area."""
    moving_in: float
    inside: float
    still_in: float


def main(argv: Sequence[str] | None = None) -> None:
    """Judge, and print the tables."""
    asked = parser("restoration.use", __doc__)
    asked.add_argument("--scenes", type=Path, nargs="+", default=[])
    asked.add_argument("--densities", type=int, nargs="+", default=DENSITIES)
    asked.add_argument("--options", default="", help="more options for `plumbline restore`")
    given = parse(asked, argv, densities=[100])
    areas: dict[tuple[int, str], list[Areas]] = {}
    tables: list[pd.DataFrame] = []
    with tempfile.TemporaryDirectory() as scratch, refusing():
        usual = ["sparse-0"] if given.smoke else USUAL
        scenes = given.scenes or [Path(scratch) / name for name in usual]
        for scene in scenes:
            domain, _, seed = scene.name.rpartition("-")
            if not scene.exists():
                make_scene(scene, domain, int(seed))
            for density in given.densities:
                work = Path(scratch) / f"{scene.name}_{density}"
                one, table = judge(scene, int(seed), density, work, shlex.split(given.options))
                for who, found in one.items():
                    areas.setdefault((density, who), []).append(found)
                tables.append(table.assign(density=density))
        print(markdown([scene.name for scene in scenes], areas, pd.concat(tables)))


def judge(
    scene: Path, seed: int, density: int, work: Path, options: Sequence[str]
) -> tuple[dict[str, Areas], pd.DataFrame]:
    """Return the areas of each answer, and a table of buildings: truth, answers, half intervals, own points."""
    generator = np.random.default_rng(seed)
    products = read_lines(sorted(scene.glob("EGMS*.csv")))
    kept = round(density * (SIDE_M / 1000) ** 2)
    thinned = [one.take(generator.permutation(len(one.body)) < kept).write(work) for one in products]
    town, movements = draw_ground(seed)
    footprints = footprints_of(town)
    footprints.to_file(work / "footprints.gpkg")
    given = ("--buildings", work / "footprints.gpkg", "--buildings-output", work / "table.csv")
    restore(thinned, [*map(str, given), "--areas", str(work / "areas.gpkg"), *options])
    tracks, truth = read_tracks(thinned), read_truth(scene)
    areas = {FIELD: geopandas.read_file(work / "areas.gpkg"), POINTS: moving_areas(tracks, footprints)}
    whole = prepare_buildings(tracks, footprints, Prepare())
    columns = whole_columns(whole.whole, footprints, Prepare().neighbours_m)
    place, moved = footprint_middle(footprints.geometry.to_numpy()), building_movements(town, movements)
    true_points = np.full(len(place), np.nan)
    sights = [np.array([0.0, 0.0, 1.0]), *(track.los.mean(axis=0) for track in tracks)]
    for sight, one in zip(sights, comparable(whole.whole), strict=True):
        true_points[one.own] = less_neighbours(moved @ sight, place)[one.own]
    read = pd.read_csv(work / "table.csv").set_index("building_id").loc[footprints["building_id"]]
    up = (read["direction"] == "up").to_numpy()
    ends = {name: np.where(up, read[f"against_neighbours_mm{name}"], np.nan) for name in ("", "_low", "_high")}
    table = pd.DataFrame(
        {
            "own": whole.n_points,
            "true": less_neighbours(moved[:, 2], place),
            "true_points": true_points,
            FIELD: ends[""],
            f"{FIELD}_half": (ends["_high"] - ends["_low"]) / 2,
            POINTS: columns["against_neighbours_mm"],
            f"{POINTS}_half": Z90 * columns["against_neighbours_std_mm"],
        }
    )
    return {who: score_areas(found, truth) for who, found in areas.items()}, table


def footprints_of(town: Town) -> geopandas.GeoDataFrame:
    """Return the footprints of a scene's buildings."""
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    rings = town.centre[:, None] + (corners * town.half[:, None]) @ town.axes + ORIGIN
    ids = [f"b{number}" for number in range(len(rings))]
    return geopandas.GeoDataFrame({"building_id": ids}, geometry=shapely.polygons(rings), crs=CRS)


def building_movements(town: Town, movements: Sequence[Movement]) -> Array:
    """Return the mean movement (B, 3) of each building, mm: of 25 places in it."""
    share = np.stack(np.meshgrid(*[np.linspace(-0.8, 0.8, 5)] * 2), -1).reshape(-1, 2)
    place = town.centre[:, None] + (share * town.half[:, None]) @ town.axes
    return np.asarray(total(movements, place.reshape(-1, 2)).reshape(-1, len(share), 3).mean(axis=1))


def less_neighbours(moved: Array, place: Array) -> Array:
    """Return movements (B,) less the median of the other buildings around."""
    same = np.ones(len(moved))
    return np.asarray(moved - medians_around(place, Comparable(moved, same, same > 0), Prepare().neighbours_m).value)


def score_areas(areas: geopandas.GeoDataFrame, truth: Truth) -> Areas:
    """Compare areas with the cells that move, up or to the east, against the median of the scene."""
    size = np.hypot(*(values - np.median(values) for values in truth.component.values()))
    row, column = np.indices(size.shape)
    east = truth.left + (column + 0.5) * truth.cell_m
    north = truth.top - (row + 0.5) * truth.cell_m
    within = [shapely.contains_xy(one, east, north) for one in areas.geometry]
    inside = np.any([np.zeros(size.shape, bool), *within], axis=0)
    number, _ = label(size >= MOVES_MM, np.ones((3, 3)))
    cells = np.bincount(number.ravel())
    places = np.flatnonzero(cells[1:] >= FEWEST) + 1
    return Areas(
        len(areas),
        sum(bool(np.median(size[one]) < STILL_MM) for one in within if one.any()),
        len(places),
        len(np.intersect1d(places, number[inside])),
        float((size >= MOVES_MM).sum()),
        float((inside & (size >= MOVES_MM)).sum()),
        float(inside.sum()),
        float((inside & (size < STILL_MM)).sum()),
    )


def markdown(scenes: Sequence[str], areas: dict[tuple[int, str], list[Areas]], table: pd.DataFrame) -> str:
    """Return the page."""
    lines = [head("points/km²", "who", "areas", "false areas", "places hit", "area found", "still, of the area")]
    for (density, who), several in areas.items():
        one = Areas(*np.sum(several, axis=0))
        shares = (one.moving_in / max(one.moving, 1), one.still_in / max(one.inside, 1))
        hit = f"{one.hit:.0f} of {one.places:.0f}"
        lines.append(line(density, who, int(one.found), int(one.false), hit, *(f"{share:.0%}" for share in shares)))
    rows = [
        head(
            "points/km²", "own points", "who", "buildings", "answered", "RMSE, mm", "coverage", "found", "false alarms"
        )
    ]
    for density in dict.fromkeys(table["density"]):
        for name, fewest, most in OWN:
            own = table[(table["density"] == density) & table["own"].between(fewest, most)]
            rows += [line(density, name, who, len(own), *_buildings(own, who)) for who in (FIELD, POINTS, STILL)]
    told = (
        f"A place moves from {MOVES_MM:g} mm on and is still below {STILL_MM:g} mm. Buildings: against their "
        "neighbours. Found: of those that move, those whose 90 % interval says so; false alarms: the same of those "
        "that are still. RMSE: of buildings that both answer; where points answer none, of those that the field "
        "answers."
    )
    return "\n\n".join(
        ["# Use of a field where points are few", stamp(*scenes), told, "\n".join(lines), "\n".join(rows)]
    )


def _buildings(own: pd.DataFrame, who: str) -> list[str]:
    """Return share answered, RMSE, coverage, and shares of those found and of false alarms; of one group."""
    true = own["true_points" if who == POINTS else "true"].to_numpy(float)
    said = np.zeros(len(own)) if who == STILL else own[who].to_numpy(float)
    half = np.zeros(len(own)) if who == STILL else own[f"{who}_half"].to_numpy(float)
    answered = np.isfinite(said) & np.isfinite(true)
    if not answered.any():
        return ["0%", "–", "–", "–", "–"]
    both = np.isfinite(own[[FIELD, POINTS]]).all(axis=1).to_numpy()
    judged = answered & (both if both.any() else np.isfinite(own[FIELD]).to_numpy())
    error = said - true
    apart = answered & (np.abs(said) > half)
    wanted, calm = (np.abs(own["true"]) >= MOVES_MM).to_numpy(), (np.abs(own["true"]) < STILL_MM).to_numpy()
    return [
        f"{answered.mean():.0%}",
        f"{np.sqrt((error[judged] ** 2).mean()):.2f}" if judged.any() else "–",
        "–" if who == STILL else f"{(np.abs(error) <= half)[answered].mean():.2f}",
        f"{(apart & wanted).sum()} of {wanted.sum()}",
        f"{(apart & calm).sum()} of {calm.sum()}",
    ]


if __name__ == "__main__":
    main()
