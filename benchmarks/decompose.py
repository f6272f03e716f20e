"""Up and east velocity from two EGMS L2b tracks against the service's own L3, cell by cell.

    python -m benchmarks.decompose ../shared/data/ustica docs/decomposition_ustica.png

The folder holds EGMS L2b products and one L3 product each of up and of east. Prints Markdown, and draws where a second
argument says.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.common import head, line, parse, parser
from plumbline.prepare.response.decompose import decompose
from plumbline.prepare.series.trend import estimate_trend
from plumbline.sources.points.read import read_points
from plumbline.sources.points.track import Track

matplotlib.use("Agg")
import matplotlib.pyplot as plt

CELL_M = 100
LEAST_POINTS = (1, 3, 5)
Array = NDArray[np.float64]


def cells_of(track: Track) -> pd.MultiIndex:
    """Cell of the L3 grid of each point."""
    return pd.MultiIndex.from_arrays([np.floor(at / CELL_M).astype(int) for at in (track.easting, track.northing)])


def velocities(track: Track, start: np.datetime64, end: np.datetime64, cell: NDArray[np.intp]) -> pd.DataFrame:
    """Mean velocity of each point and its standard errors (mm/yr) from `start` to `end`; points of a cell together."""
    inside = (track.epochs >= start) & (track.epochs <= end)
    when = ((track.epochs[inside] - start) / (end - start)).astype(float)
    years = float((end - start) / np.timedelta64(1, "D")) / 365.25
    rows = np.argsort(cell, kind="stable")
    rows = rows[cell[rows] >= 0]
    found = estimate_trend(track.displacement[rows][:, inside], when, years, cell[rows])
    east, north, up = track.los[rows].T
    values = {"velocity": found.line / years, "se": found.line_se / years, "common_se": found.common_se / years}
    return pd.DataFrame({"cell": cell[rows], "east": east, "north": north, "up": up, **values})


def compare(folder: Path) -> pd.DataFrame:
    """One row a cell of L3: ours and the service's velocity up and east (mm/yr), our errors, points of each track."""
    tracks = [read_points(path) for path in sorted(folder.glob("EGMS_L2b*.zip"))]
    service = {name: read_points(next(folder.glob(f"EGMS_L3*_{name}_*.zip"))) for name in ("U", "E")}
    everything = [*tracks, *service.values()]
    start = max(track.epochs[0] for track in everything)
    end = min(track.epochs[-1] for track in everything)
    grid = cells_of(service["U"])
    points = pd.concat(
        [velocities(track, start, end, grid.get_indexer(cells_of(track))) for track in tracks], keys=range(len(tracks))
    )
    track = points.index.get_level_values(0).to_numpy()
    cell = points["cell"].to_numpy()
    found = decompose(
        cell,
        track,
        points[["east", "north", "up"]].to_numpy(),
        points["velocity"].to_numpy(),
        points["se"].to_numpy(),
        points["common_se"].to_numpy(),
        len(grid),
        len(tracks),
    )
    theirs = {
        name: velocities(other, start, end, grid.get_indexer(cells_of(other))).set_index("cell")["velocity"]
        for name, other in service.items()
    }
    least = np.min([np.bincount(cell[track == number], minlength=len(grid)) for number in range(len(tracks))], axis=0)
    ours = {"up": found.up, "up_se": found.up_se, "east": found.east, "east_se": found.east_se}
    return pd.DataFrame({**ours, "service_up": theirs["U"], "service_east": theirs["E"], "points": least})


def agreement(ours: pd.Series, service: pd.Series) -> tuple[float, float]:
    """Correlation, and the slope of total least squares of ours on theirs (both have errors)."""
    covariance = np.cov(service, ours)
    largest = np.linalg.eigh(covariance)[1][:, -1]
    return float(np.corrcoef(service, ours)[0, 1]), float(largest[1] / largest[0])


def invented(folder: Path) -> Path:
    """Write products of a place that moves up by its northing and east by its easting: two of L2b and two of L3."""
    generator, side = np.random.default_rng(0), 6
    days = np.arange(0, 600, 12)
    names = [f"{day:%Y%m%d}" for day in pd.Timestamp("2020-01-03") + pd.to_timedelta(days, unit="D")]
    corner = np.array([4_598_000.0, 1_739_000.0])

    def write(product: str, place: Array, los: Array | None, velocity: Array) -> None:
        series = np.round(velocity[:, None] * days / 365.25 + generator.normal(0, 0.5, (len(place), len(days))), 1)
        looks = {} if los is None else dict(zip(("los_east", "los_north", "los_up"), los, strict=True))
        columns = {"pid": [f"p{i}" for i in range(len(place))], "easting": place[:, 0], "northing": place[:, 1]}
        table = pd.DataFrame({**columns, "height_ortho": 10.0, **looks, "mean_velocity": velocity})
        table = pd.concat([table, pd.DataFrame(series, columns=names)], axis=1)
        with zipfile.ZipFile(folder / f"{product}.zip", "w") as archive:
            archive.writestr(f"{product}.csv", table.to_csv(index=False))

    def moves(place: Array) -> Array:
        return (place - corner) / (side * CELL_M) * 20 - 10

    for number, los in ((117, (0.6, -0.1, 0.79)), (22, (-0.6, -0.1, 0.79))):
        place = corner + generator.uniform(0, side * CELL_M, (side * side * 12, 2))
        east, up = moves(place).T
        write(f"EGMS_L2b_{number:03d}_0001_IW2_VV_2020_2024_1", place, np.array(los), los[0] * east + los[2] * up)
    grid = corner + (np.stack(np.meshgrid(*[np.arange(side)] * 2), -1).reshape(-1, 2) + 0.5) * CELL_M
    for name, velocity in zip(("E", "U"), moves(grid).T, strict=True):
        write(f"EGMS_L3_E45N17_100km_{name}_2020_2024_1", grid, None, velocity)
    return folder


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and draw."""
    asked = parser("decompose", __doc__)
    asked.add_argument("folder", type=Path, nargs="?", default=Path("../shared/data/ustica"))
    asked.add_argument("picture", type=Path, nargs="?")
    given = parse(asked, argv, folder=None)
    with tempfile.TemporaryDirectory() as scratch:
        table = compare(given.folder or invented(Path(scratch)))
        if given.picture or given.smoke:
            draw(table, given.picture or Path(scratch) / "picture.png")
    print(head("points of each track", "cells", "component", "correlation", "slope", "difference, mm/yr: median, sd"))
    for least in LEAST_POINTS:
        part = table[table["points"] >= least]
        for name in ("up", "east"):
            off = part[name] - part[f"service_{name}"]
            correlation, slope = agreement(part[name], part[f"service_{name}"])
            print(
                line(
                    f"{least} or more",
                    len(part),
                    name,
                    f"{correlation:.3f}",
                    f"{slope:.3f}",
                    f"{off.median():+.2f}, {off.std():.2f}",
                )
            )


def draw(table: pd.DataFrame, picture: Path) -> None:
    """Ours against theirs, a panel a component."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.5), dpi=90, layout="constrained")
    for panel, name in zip(panels, ("up", "east"), strict=True):
        ours, service = table[name], table[f"service_{name}"]
        correlation, slope = agreement(ours, service)
        panel.errorbar(service, ours, yerr=table[f"{name}_se"], fmt="none", ecolor="0.85", lw=0.6, zorder=1)
        points = panel.scatter(service, ours, c=np.log10(table["points"]), s=7, cmap="viridis", zorder=2)
        ends = [min(service.min(), ours.min()), max(service.max(), ours.max())]
        panel.plot(ends, ends, color="black", lw=0.8)
        panel.set_title(f"{name}: correlation {correlation:.3f}, slope {slope:.2f}")
        panel.set_xlabel("EGMS L3, mm/yr")
        panel.set_ylabel("from the two L2b tracks, mm/yr")
        panel.set_aspect("equal")
    bar = figure.colorbar(points, ax=panels, ticks=np.log10([1, 3, 10, 30, 100]), shrink=0.8)
    bar.ax.set_yticklabels(["1", "3", "10", "30", "100"])
    bar.set_label("points of the sparser track in the cell")
    figure.savefig(picture)


if __name__ == "__main__":
    main()
