"""How often the 90 % intervals of `plumbline compare` hold, on simulated cities whose houses are levelled.

    python -m benchmarks.levelling [--buildings N] [--seeds S ...] [--model PACKAGE] [--keep FOLDER]

Each city is of `benchmarks.makers.ninth`. Bolts at all corners and mid walls of its houses are levelled at the first
day, each year after, and the last day, with an error of 0.3 mm and a benchmark that moves. The difference of radar and
levelling is truly 0: *holds* is how often its interval says so. *Radar alone* and *levelling alone*: how often the
interval of one holds the truth. Prints Markdown.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common import head, line, parse, parser, stamp
from benchmarks.makers.ninth.city import SOUND, make_city, names_of
from benchmarks.makers.ninth.observe import draw_tracks
from benchmarks.makers.ninth.settings import BANDS, FIRST_DAY
from benchmarks.makers.ninth.structure import Structure, draw_structures
from benchmarks.makers.ninth.town import draw_town
from plumbline.release.resolve import resolve_model
from plumbline.serve.compare.agreement import WITHIN, Compared
from plumbline.serve.compare.run import compare
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
COLUMNS = ("band", "figure", "buildings", "holds", "radar alone", "levelling alone", "median difference", "median std")


def level(band: str, buildings: int, seed: int, path: Path) -> None:
    """Level the houses of the city that `make_city` draws of the same numbers, and write the table."""
    layout, moving, seeing, *_ = np.random.SeedSequence(seed).spawn(6)
    structures = draw_structures(moving, draw_town(np.random.default_rng(layout), buildings), SOUND)
    tracks = draw_tracks(np.random.default_rng(seeing), BANDS[band])
    period = min(int(track.days[0]) for track in tracks), max(int(track.days[-1]) for track in tracks)
    days = np.unique([*range(period[0], period[1] - 180, 365), period[1]])
    shares = (days - period[0]) / (period[1] - period[0])
    generator = np.random.default_rng(seed + 1)
    datum = generator.normal(0, DATUM_MM, len(days))
    dates = (pd.Timestamp(FIRST_DAY) + pd.to_timedelta(days, unit="D")).strftime("%d.%m.%Y")
    parts = []
    for name, structure in zip(names_of(structures), structures, strict=True):
        places, moved = bolts(structure, shares)
        heights = 40 + 1e-3 * (1e3 * moved + generator.normal(0, STD_MM, moved.shape) - datum)
        about = {"point": [f"{name}-{number}" for number in range(len(places))], "E [m]": places[:, 0].round(3)}
        part = pd.DataFrame({**about, "N [m]": places[:, 1].round(3)})
        parts.append(part.join(pd.DataFrame(heights.round(5), columns=[f"{date} [m]" for date in dates])))
    pd.concat(parts).to_csv(path, index=False, sep=";", decimal=",")


def bolts(structure: Structure, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return places (N, 2), m on the map, of bolts, and their true movements (N, D) up, m, at shares (D,) of time."""
    corners = structure.building.outline()
    if (corners[0] == corners[-1]).all():
        corners = corners[:-1]
    own = np.concatenate([corners, (corners + np.roll(corners, -1, axis=0)) / 2])
    up = structure.causes(own, np.zeros(len(own)))[..., 2]
    return structure.building.on_map(own), up @ np.stack([course.at(shares) for course in structure.courses])


def share(good: pd.Series) -> str:
    """Return a share in percent, with its standard error by chance."""
    return f"{100 * good.mean():.1f} ± {100 * np.sqrt(good.mean() * (1 - good.mean()) / len(good)):.1f}"


def measured(compared: Compared, labels: pd.DataFrame) -> pd.DataFrame:
    """Return the comparison beside the truth, radar less the difference of the datums."""
    table = pd.DataFrame(compared.table.drop(columns="geometry")).set_index("building_id")
    truth = labels.set_index("building_id")[["settlement_mm", "tilt_mm_m", "severity_permille"]].add_prefix("true_")
    table["settlement_mm"] -= compared.datum_mm
    datum = (table["levelled_settlement_mm"] - truth["true_settlement_mm"].reindex(table.index)).median()
    table["levelled_settlement_mm"] -= datum  # of the benchmark
    table["settlement_mm"] -= datum
    return table.join(truth)


def say(band: str, table: pd.DataFrame) -> None:
    """Print the lines of a band."""
    for name, column, unit in FIGURES:
        own = table[table[f"{column}_agrees"].notna()]
        truth, value = own[f"true_{column}_{unit}"], own[f"{column}_{unit}"]
        if column == "severity":
            radar = (own["severity_low"] <= truth) & (truth <= own["severity_high"])
        else:
            radar = (value - truth).abs() <= WITHIN * own[f"{column}_std_{unit}"]
        levelled = (own[f"levelled_{column}_{unit}"] - truth).abs() <= WITHIN * own[f"levelled_{column}_std_{unit}"]
        figures = (own[f"{column}_difference_{unit}"].abs().median(), own[f"{column}_difference_std_{unit}"].median())
        shares = (share(own[f"{column}_agrees"].astype(float)), share(radar), share(levelled))
        print(line(band, f"{name}, {unit.replace('_', '/')}", len(own), *shares, *(f"{one:.2f}" for one in figures)))


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
        for band in BANDS:
            tables = []
            for seed in given.seeds:
                city = folder / f"{band.lower()}band-{seed}"
                make_city(city, band, given.buildings, seed)
                levels = folder / f"{city.name}-levels.csv"
                level(band, given.buildings, seed, levels)
                files, output = find_files(city), folder / f"{city.name}.csv"
                compared = compare(files.products, files.footprints, levels, package, output)
                tables.append(measured(compared, pd.read_csv(city / "labels.csv", dtype={"building_id": str})))
            say(band, pd.concat(tables))


if __name__ == "__main__":
    main()
