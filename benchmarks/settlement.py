"""How often the 90 % intervals of settlement and tilt hold, by how many scatterers the poorer direction has.

    python -m benchmarks.settlement [--buildings N] [--seeds S ...]

*Own*: cities of `plumbline simulate`, where a fifth of the buildings fail; *held out*: of `benchmarks.makers.ninth`,
where half of them are sound. The truth is the mean movement of the footprint, vertical or along the line of sight. What
all settlements of a city share is taken off: it is of the references. Tilts count by component. Prints Markdown.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import shapely

from benchmarks.common import head, line, parse, parser, stamp
from benchmarks.levelling import moving_part
from benchmarks.makers.ninth.city import make_city, names_of
from benchmarks.makers.ninth.settings import BANDS, Array
from benchmarks.makers.ninth.structure import draw_structures
from benchmarks.makers.ninth.town import draw_town
from plumbline.params import City, Prepare, Simulate
from plumbline.prepare.buildings import prepare_buildings
from plumbline.serve.place.surroundings import comparable
from plumbline.simulate.city import CityWriter, draw_site, part_files, radius_jobs, write_part
from plumbline.simulate.site import part_radius
from plumbline.sources.city.in_memory import read_tracks
from plumbline.sources.footprints.buildings import read_buildings

FAILING, SOUND = 0.2, 0.5
"""Share of the buildings that fail in an own city, and that are sound in a held-out one."""
SHARES = np.stack(np.meshgrid(*[(np.arange(30) + 0.5) / 15 - 1] * 2), -1).reshape(-1, 2)
"""Middles of cells of a footprint's rectangle, as shares of its half sides."""
GROUPS = {"all": (0, np.inf), "none": (0, 0), "one": (1, 1), "two": (2, 2), "three or more": (3, np.inf)}
"""Scatterers of the direction that has fewer: name, fewest, most."""
Z90, FAR, WELL_SEEN = 1.645, 4.0, 5


def own(folder: Path, band: str, buildings: int, seed: int) -> pd.DataFrame:
    """Make a city of `plumbline simulate`; return what its buildings do: see `movement`."""
    city, rows = City(band=band, buildings=buildings, seed=seed), []
    radius = max(part_radius(*arguments) for arguments in radius_jobs(folder.name, city))
    site = draw_site(folder.name, city, 0, radius, Simulate(cities={"own": city}, showcase=city, damaged=FAILING))
    folder.mkdir(parents=True)
    with CityWriter(folder, site, "labels.csv") as writer:
        for number in range(site.parts):
            write_part(site, number, part_files(folder, site, "labels.csv", number))
            writer.append(number)
            layout, motion = moving_part(site, number)
            for row, polygon in enumerate(layout.polygon):
                cos, sin = np.cos(layout.frames.angle[row]), np.sin(layout.frames.angle[row])
                axes, xy = np.array([[cos, sin], [-sin, cos]]), SHARES * layout.frames.side[row] / 2
                xy = xy[shapely.contains_xy(polygon, *(layout.frames.centre[row] + xy @ axes).T)]
                up, *along = motion.structure_field(np.full(len(xy), row), *xy.T)
                rows.append(movement(xy, np.column_stack([np.column_stack(along) @ axes, up]), axes))
    return pd.DataFrame(rows, [f"{folder.name}_{number:06d}" for number in range(len(rows))])


def held_out(folder: Path, band: str, buildings: int, seed: int) -> pd.DataFrame:
    """Make a city of the ninth maker; return what its buildings do: see `movement`."""
    make_city(folder, band, buildings, seed, SOUND)
    layout, moving, *_ = np.random.SeedSequence(seed).spawn(6)
    structures, rows = draw_structures(moving, draw_town(np.random.default_rng(layout), buildings), SOUND), []
    for one in structures:
        xy = (SHARES * one.building.half)[one.building.holds(SHARES * one.building.half)]
        rows.append(movement(xy, 1e3 * one.causes(xy, np.zeros(len(xy))).sum(1), one.building.axes))
    return pd.DataFrame(rows, names_of(structures))


def movement(xy: Array, moved: Array, axes: Array) -> Array:
    """Return the mean of movements (N, 3) at own places (N, 2), mm, and the tilt to east and north, mm/m."""
    slope = np.linalg.lstsq(np.column_stack([xy, np.ones(len(xy))]), moved[:, 2], rcond=None)[0][:2]
    return np.concatenate([moved.mean(0), slope @ axes])


def measured(make: Callable[..., pd.DataFrame], folder: Path, *about: object) -> pd.DataFrame:
    """Make a city; return the errors of settlement and tilts of its buildings, in standard errors."""
    truth, tracks = make(folder, *about), read_tracks(sorted(folder.glob("EGMS*.csv")))
    footprints = read_buildings(folder / "footprints.geojson", tracks[0].crs)
    prepared = prepare_buildings(tracks, footprints, Prepare())
    true = truth.loc[footprints["building_id"].astype(str)].to_numpy()
    points, movements = prepared.means.points, comparable(prepared.whole)
    table = pd.DataFrame({"fewest": points.min(1), "is_vertical": movements[0].own, "settlement": np.nan})
    sights = np.insert(prepared.whole.los, 0, [0, 0, 1], axis=1)
    for number, moved in enumerate(movements):
        off = moved.value - (sights[:, number] * true[:, :3]).sum(1)
        off -= np.nanmedian(off[(points[:, number - 1] if number else points.min(1)) >= WELL_SEEN])
        table.loc[moved.own, "settlement"] = (off / np.sqrt(moved.variance))[moved.own]
    error = np.sqrt(np.diagonal(prepared.whole.tilt_covariance, axis1=1, axis2=2))
    return table.join(pd.DataFrame((prepared.whole.tilt - true[:, 3:]) / error, columns=["tilt_east", "tilt_north"]))


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("settlement", __doc__)
    asked.add_argument("--buildings", type=int, default=500, help="of a city")
    asked.add_argument("--seeds", type=int, nargs="+", default=[1], help="a city of each maker and band for each")
    given = parse(asked, argv, buildings=40)
    print(f"{stamp()}. Percent; {len(given.seeds)} cities of {given.buildings} buildings for each maker and band.\n")
    columns = (f"{name}{what}" for name in ("settlement", "tilt") for what in ("s", " holds", " beyond 4"))
    print(head("cities", "band", "fewer scatterers", "buildings", "vertical", *columns))
    for name, make, band in [(*maker, band) for maker in (("own", own), ("held out", held_out)) for band in BANDS]:
        with tempfile.TemporaryDirectory() as scratch:
            folders = {seed: Path(scratch) / f"c{seed}" for seed in given.seeds}
            table = pd.concat([measured(make, at, band, given.buildings, seed) for seed, at in folders.items()])
        for group, (low, high) in GROUPS.items():
            part = table[table["fewest"].between(low, high)]
            cells = [name, band, group, len(part), int(part["is_vertical"].sum())]
            for off in (part["settlement"].abs().dropna(), part[["tilt_east", "tilt_north"]].stack().abs().dropna()):
                cells += [len(off), f"{100 * (off < Z90).mean():.1f}", f"{100 * (off > FAR).mean():.2f}"]
            print(line(*cells), flush=True)


if __name__ == "__main__":
    main()
