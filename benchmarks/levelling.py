"""How often the 90 % intervals of `plumbline compare` hold, on simulated cities whose houses are levelled.

    python -m benchmarks.levelling [--buildings N] [--seeds S ...] [--model PACKAGE] [--keep FOLDER]

*Own*: cities of `plumbline simulate`; *held out*: of `benchmarks.makers.ninth`. Bolts at all corners and mid walls of
all houses are levelled with an error of 0.3 mm, from a benchmark that moves. The difference of radar and levelling is
truly 0: *holds* is the share of the buildings whose interval says so, percent. *Radar holds*: how often the radar's
interval of the severity holds the label; *levelled of true*: median of the levelled over the true severity of damaged
buildings. Prints Markdown.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from benchmarks.common import head, line, parse, parser, project_settings, stamp
from benchmarks.makers.ninth.city import SOUND, make_city, names_of
from benchmarks.makers.ninth.observe import draw_tracks
from benchmarks.makers.ninth.settings import BANDS, FIRST_DAY
from benchmarks.makers.ninth.structure import draw_structures
from benchmarks.makers.ninth.town import draw_town
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.params import City, Params
from plumbline.release.resolve import resolve_model
from plumbline.serve.compare.run import compare
from plumbline.simulate.city import (
    REACH_OF_A_BUILDING_M,
    CityWriter,
    draw_site,
    part_files,
    radius_jobs,
    write_part,
)
from plumbline.simulate.random_numbers import generators
from plumbline.simulate.site import PART_BUILDINGS, PART_DISTRICTS, Site, part_radius
from plumbline.simulate.structure.layout import CityLayout, draw_layout, draw_plan
from plumbline.simulate.structure.motion import Motion, draw_motion
from plumbline.simulate.structure.tunnels import tunnels_near
from plumbline.sources.city.files import find_files

STD_MM, DATUM_MM = 0.3, 5.0
"""Errors of a levelled height; standard deviation of the benchmark's height between two dates."""


class Figure(NamedTuple):
    """What is compared."""

    name: str
    column: str
    unit: str


FIGURES = (
    Figure("settlement", "settlement", "mm"),
    Figure("tilt", "tilt", "mm_m"),
    Figure("strain", "severity", "permille"),
)
COLUMNS = (
    *("cities", "band", "figure", "buildings", "holds", "median difference", "median std", "radar holds"),
    "levelled of true",
)
Array = NDArray[np.float64]
Make = Callable[[Path, str, int, int], "Town"]
"""(folder, band, buildings, seed) -> what its bolts do."""


class Town(NamedTuple):
    """What bolts of a city do."""

    name: NDArray[np.str_]
    """(P,) of their buildings."""
    place: Array
    """(P, 2) easting and northing, m."""
    moved: Array
    """(P, D) mm up, on the days that it is levelled."""
    days: pd.DatetimeIndex
    """(D,)"""

    def write(self, path: Path, seed: int) -> None:
        """Level the bolts, and write a wide table as a spreadsheet does."""
        generator = np.random.default_rng(seed)
        heights = (
            self.moved + generator.normal(0, STD_MM, self.moved.shape) - generator.normal(0, DATUM_MM, len(self.days))
        )
        about = {"point": [f"{name}-{number}" for number, name in enumerate(self.name)]}
        table = pd.DataFrame({**about, "E [m]": self.place[:, 0].round(3), "N [m]": self.place[:, 1].round(3)})
        columns = [f"{day:%d.%m.%Y} [m]" for day in self.days]
        table.join(pd.DataFrame((40 + heights / 1e3).round(5), columns=columns)).to_csv(
            path, index=False, sep=";", decimal=","
        )


def held_out(folder: Path, band: str, buildings: int, seed: int) -> Town:
    """Make a city of the ninth maker, and level it on the first day, each year after, and the last day."""
    make_city(folder, band, buildings, seed)
    layout, moving, seeing, *_ = np.random.SeedSequence(seed).spawn(6)
    structures = draw_structures(moving, draw_town(np.random.default_rng(layout), buildings), SOUND)
    tracks = draw_tracks(np.random.default_rng(seeing), BANDS[band])
    first, last = min(int(track.days[0]) for track in tracks), max(int(track.days[-1]) for track in tracks)
    days = np.unique([*range(first, last - 180, 365), last])
    shares = (days - first) / (last - first)
    names, places, moved = [], [], []
    for name, one in zip(names_of(structures), structures, strict=True):
        own = bolts(one.building.outline())
        up = one.causes(own, np.zeros(len(own)))[..., 2]
        names += [name] * len(own)
        places.append(one.building.on_map(own))
        moved.append(1e3 * up @ np.stack([course.at(shares) for course in one.courses]))
    dates = pd.Timestamp(FIRST_DAY) + pd.to_timedelta(days, unit="D")
    return Town(np.array(names), np.concatenate(places), np.concatenate(moved), dates)


def own(folder: Path, band: str, buildings: int, seed: int) -> Town:
    """Make a city of `plumbline simulate`, and level it on the first and on the last day."""
    city, name = City(band=band, buildings=buildings, seed=seed), folder.name
    radius = max(part_radius(*arguments) for arguments in radius_jobs(name, city))
    site = draw_site(name, city, 0, radius, Params.model_validate(project_settings()).simulate)
    folder.mkdir(parents=True)
    names, places, moved = [], [], []
    with CityWriter(folder, site, "labels.csv") as writer:
        for number in range(site.parts):
            write_part(site, number, part_files(folder, site, "labels.csv", number))
            writer.append(number)
            layout, motion = moving_part(site, number)
            for row, polygon in enumerate(layout.polygon):
                at = bolts(shapely.get_coordinates(polygon.exterior))
                local = layout.frames.to_building(np.full(len(at), row), at)
                names += [f"{name}_{number * PART_BUILDINGS + row:06d}"] * len(at)
                places.append(at + np.array(site.place))
                moved.append(motion.structure_field(np.full(len(at), row), *local.T)[0])
    last = np.concatenate(moved)
    days = pd.DatetimeIndex([site.start, site.start + np.timedelta64(int(site.length_days), "D")])
    return Town(np.array(names), np.concatenate(places), np.stack([np.zeros(len(last)), last], 1), days)


def moving_part(site: Site, number: int) -> tuple[CityLayout, Motion]:
    """Return buildings and their motion in a part of a city, as `write_part` draws them."""
    of_plan, of_layout, of_motion, *_ = generators(site.entropy, number)
    plan = draw_plan(of_plan, min(PART_BUILDINGS, site.town.buildings - number * PART_BUILDINGS))
    layout = draw_layout(of_layout, plan, site.town, number * PART_DISTRICTS)
    tunnels = tunnels_near(list(site.tunnels), layout.frames.centre, REACH_OF_A_BUILDING_M)
    return layout, draw_motion(of_motion, layout, tunnels, site.damaged, site.mechanisms)


def bolts(corners: Array) -> Array:
    """Return the corners and the middles between them (N, 2) of a ring (C, 2), closed or not."""
    ring = corners[:-1] if (corners[0] == corners[-1]).all() else corners
    return np.concatenate([ring, (ring + np.roll(ring, -1, axis=0)) / 2])


def share(good: pd.Series) -> str:
    """Return a share in percent, with its standard error by chance."""
    return f"{100 * good.mean():.1f} ± {100 * np.sqrt(good.mean() * (1 - good.mean()) / len(good)):.1f}"


def say(name: str, band: str, table: pd.DataFrame) -> None:
    """Print the lines of a band."""
    damaged = table["true_permille"] >= CATEGORY_BOUNDS_PERMILLE[0]
    groups = [(figure, column, unit, table) for figure, column, unit in FIGURES]
    groups.append(("strain of damaged", "severity", "permille", table[damaged]))
    for figure, column, unit, own in groups:
        known = own[own[f"{column}_agrees"].notna()]
        apart, std = (known[f"{column}_difference_{end}"].abs().median() for end in (unit, f"std_{unit}"))
        agrees, truth, radar, ratio = share(known[f"{column}_agrees"].astype(float)), known["true_permille"], "", ""
        if column == "severity":
            radar = share(((known["severity_low"] <= truth) & (truth <= known["severity_high"])).astype(float))
            ratio = f"{(known['levelled_severity_permille'] / truth).median():.2f}" if own is not table else ""
        what = f"{figure}, {unit.replace('_', '/')}"
        print(line(name, band, what, len(known), agrees, f"{apart:.2f}", f"{std:.2f}", radar, ratio))


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("levelling", __doc__)
    asked.add_argument("--buildings", type=int, default=300, help="of a city")
    asked.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="a city of each band for each")
    asked.add_argument("--model", default="pretrained")
    asked.add_argument("--keep", type=Path, help="folder for the cities and tables; else they are removed")
    given = parse(asked, argv, buildings=24, seeds=[1])
    with tempfile.TemporaryDirectory() as scratch:
        folder, package = given.keep or Path(scratch), resolve_model(given.model)
        print(
            f"{stamp()}. Percent of the buildings; a city of {given.buildings} for each of {len(given.seeds)} seeds.\n"
        )
        print(head(*COLUMNS))
        for name, make in (("own", own), ("held out", held_out)):
            for band in BANDS:
                tables = [
                    compared(make, folder / f"{name[:3]}-{band}-{seed}", band, given.buildings, seed, package)
                    for seed in given.seeds
                ]
                say(name, band, pd.concat(tables))


def compared(make: Make, folder: Path, band: str, buildings: int, seed: int, package: Path) -> pd.DataFrame:
    """Make a city, level and compare it: return the table with the true severity."""
    levels = folder.with_name(f"{folder.name}-levels.csv")
    make(folder, band, buildings, seed).write(levels, seed)
    files = find_files(folder)
    table = compare(files.products, files.footprints, levels, package, folder.with_name(f"{folder.name}.csv")).table
    truth = pd.read_csv(folder / "labels.csv", dtype={"building_id": str}).set_index("building_id")["severity_permille"]
    return pd.DataFrame(table.drop(columns="geometry")).join(truth.rename("true_permille"), on="building_id")


if __name__ == "__main__":
    main()
