"""What the readers must hold of files as the European Ground Motion Service hands them out, and what those are like."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from plumbline.sources.files.csv_table import read_columns, read_header
from plumbline.sources.files.opened import find_csv
from plumbline.sources.points.track import Track
from tests.sources.points.opening import read_points

DATA = Path(__file__).parents[3] / "shared" / "data"
USTICA, AMSTERDAM, MAOXIAN = DATA / "ustica", DATA / "amsterdam", DATA / "maoxian"
DESCENDING = USTICA / "EGMS_L2b_022_0845_IW2_VV_2020_2024_1.zip"
ASCENDING = USTICA / "EGMS_L2b_117_0227_IW2_VV_2020_2024_1.zip"
EAST = USTICA / "EGMS_L3_E45N17_100km_E_2020_2024_1.zip"
UP = USTICA / "EGMS_L3_E45N17_100km_U_2020_2024_1.zip"
L2B = pytest.mark.parametrize("path", [DESCENDING, ASCENDING], ids=["track 22", "track 117"])
pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif(not DATA.is_dir(), reason="the real files are not there (../shared/data)"),
]


@pytest.fixture(scope="module")
def tracks() -> dict[Path, Track]:
    return {path: read_points(path) for path in (DESCENDING, ASCENDING)}


def numbers(path: Path, *names: str) -> pd.DataFrame:
    product = find_csv(path)
    frame: pd.DataFrame = read_columns(product, read_header(product), dict.fromkeys(names, pa.float64())).to_pandas()
    return frame


def years(track: Track) -> NDArray[np.float64]:
    return np.asarray((track.epochs - track.epochs[0]) / np.timedelta64(1, "D") / 365.25, float)


@pytest.mark.parametrize(("path", "shape"), [(ASCENDING, (11759, 207)), (DESCENDING, (11590, 210))])
def test_points_and_epochs_are_all_read(tracks, path, shape):
    track = tracks[path]
    assert track.displacement.shape == shape
    assert (track.crs, track.name) == ("EPSG:3035", path.stem)
    assert dict(track.dropped) == {}


@L2B
def test_the_line_of_sight_points_from_ground_to_satellite(tracks, path):
    # Heading a clockwise from north, incidence t, looking right: [-sin t cos a, sin t sin a, cos t].
    angles = np.radians(numbers(path, "incidence_angle", "track_angle"))
    t, a = angles["incidence_angle"].to_numpy(), angles["track_angle"].to_numpy()
    expected = np.stack([-np.sin(t) * np.cos(a), np.sin(t) * np.sin(a), np.cos(t)], axis=1)
    np.testing.assert_allclose(tracks[path].los, expected, atol=0.002)
    np.testing.assert_allclose(np.linalg.norm(tracks[path].los, axis=1), 1, atol=0.001)


@L2B
def test_mean_velocity_is_that_of_a_linear_plus_annual_fit(tracks, path):
    # So the series are in mm, and the epochs are in their right places.
    t = years(tracks[path])
    basis = np.stack([np.ones_like(t), t, np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)], axis=1)
    coefficients, *_ = np.linalg.lstsq(basis, tracks[path].displacement.T.astype(float), rcond=None)
    velocity = numbers(path, "mean_velocity")["mean_velocity"].to_numpy()
    assert np.abs(coefficients[1] - velocity).max() < 0.105


@L2B
def test_positive_is_towards_the_satellite_as_up_and_east_of_l3_say(tracks, path):
    track = tracks[path]
    cells = ["easting", "northing"]
    l2 = pd.DataFrame({"easting": track.easting, "northing": track.northing}) // 100
    l2[["los_east", "los_up"]] = track.los[:, [0, 2]]
    l2["velocity"] = numbers(path, "mean_velocity")["mean_velocity"]
    cell = l2.groupby(cells).mean()
    for name, product in (("east", EAST), ("up", UP)):
        grid = numbers(product, *cells, "mean_velocity")
        grid[cells] //= 100
        cell[name] = grid.set_index(cells)["mean_velocity"]
    cell = cell.dropna()
    assert len(cell) > 400
    predicted = cell["east"] * cell["los_east"] + cell["up"] * cell["los_up"]
    assert np.corrcoef(predicted, cell["velocity"])[0, 1] > 0.985
