"""Two tracks of an island, taken apart into up and east, against what the service made of the same data."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from plumbline.prepare.response.decompose import solve_units, track_means
from plumbline.prepare.series.trend import estimate_trend
from plumbline.sources.points.track import Track
from tests.sources.points.opening import read_points

CELL_M = 100
ROOT = Path(__file__).parents[2]
USTICA = ROOT.parent / "shared/data/ustica"
pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif(not USTICA.is_dir(), reason="the real files are not there (../shared/data)"),
]


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
    los = points[["east", "north", "up"]].to_numpy()
    names = {"rate": "velocity", "rate_se": "se", "common_se": "common_se"}
    rates = {name: points[column].to_numpy() for name, column in names.items()}
    found = solve_units(track_means(cell, track, los, **rates, shape=(len(grid), len(tracks))))
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


@pytest.fixture(scope="module")
def cells():
    return compare(USTICA)


@pytest.mark.parametrize("component", ["up", "east"])
@pytest.mark.parametrize("points", [1, 3])
def test_cell_means_are_those_of_the_services_own_decomposition(cells, component, points):
    part = cells[cells["points"] >= points]
    assert len(part) > 400
    correlation, slope = agreement(part[component], part[f"service_{component}"])
    assert correlation >= 0.95
    assert 0.9 <= slope <= 1.1
    # Both products refer to the same frame, so no constant is left between them.
    assert abs((part[component] - part[f"service_{component}"]).median()) < 0.1


@pytest.mark.parametrize("component", ["up", "east"])
def test_differences_are_within_the_stated_errors(cells, component):
    scaled = (cells[component] - cells[f"service_{component}"]) / cells[f"{component}_se"]
    assert (scaled.abs() < 1.96).mean() > 0.95  # the service saw the same points: mostly closer than that
