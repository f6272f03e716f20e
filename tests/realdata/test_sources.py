"""What the readers must hold of files as the European Ground Motion Service hands them out, and what those are like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.sources.checks import check_overlap
from plumbline.sources.files.csv_table import read_columns, read_header
from plumbline.sources.files.opened import find_csv, zip_members
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.points.points_table import load_points, write_points
from plumbline.sources.points.read import read_points
from plumbline.sources.points.track import Track

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


@L2B
def test_the_zip_holds_a_csv_and_an_xml(path):
    assert sorted(Path(name).suffix for name in zip_members(path)) == [".csv", ".xml"]


@pytest.mark.parametrize(("path", "shape"), [(ASCENDING, (11759, 207)), (DESCENDING, (11590, 210))])
def test_points_and_epochs_are_all_read(tracks, path, shape):
    track = tracks[path]
    assert track.displacement.shape == shape
    assert (track.crs, track.name) == ("EPSG:3035", path.stem)
    assert dict(track.dropped) == {}


@L2B
def test_there_are_no_nulls_and_no_pid_twice(tracks, path):
    track = tracks[path]
    assert not np.isnan(track.displacement).any()
    assert len(set(track.point_id)) == len(track)


@pytest.mark.parametrize(("path", "pairs"), [(ASCENDING, 55), (DESCENDING, 46)])
def test_some_points_share_a_position_and_all_are_kept(tracks, path, pairs):
    positions = np.stack([tracks[path].easting, tracks[path].northing], axis=1)
    assert len(positions) - len(np.unique(positions, axis=0)) == pairs


@L2B
def test_series_do_not_start_at_zero_and_minus_zero_occurs(tracks, path):
    series = tracks[path].displacement
    assert np.abs(series[:, 0]).mean() > 1
    assert (np.signbit(series) & (series == 0)).any()


def test_a_standard_deviation_can_be_zero():
    names = ("mean_velocity_std", "acceleration_std", "seasonality_std")
    assert (pd.concat([numbers(path, *names) for path in (DESCENDING, ASCENDING, EAST, UP)]) == 0).any(axis=None)


@L2B
def test_epochs_are_irregular(tracks, path):
    gaps = np.diff(tracks[path].epochs).astype(int)
    assert gaps[0] == 6
    assert np.median(gaps[-20:]) == 12
    assert gaps.max() == 24


def test_epochs_differ_between_tracks(tracks):
    assert set(tracks[ASCENDING].epochs) != set(tracks[DESCENDING].epochs)


@pytest.mark.parametrize(("path", "angle"), [(ASCENDING, -8.93), (DESCENDING, 191.42)])
def test_track_angles_keep_to_no_range(path, angle):
    assert numbers(path, "track_angle")["track_angle"].median() == pytest.approx(angle, abs=0.02)


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


@L2B
def test_a_cut_zip_is_refused(tmp_path, path):
    cut = tmp_path / path.name
    cut.write_bytes(path.read_bytes()[:1_000_000])
    with pytest.raises(InputError, match="cut off"):
        read_points(cut)


def test_a_changed_cell_of_the_real_file_is_named(tmp_path):
    with find_csv(ASCENDING).open() as stream:
        lines = stream.read().decode().splitlines(keepends=True)
    lines[9876] = lines[9876].rpartition(",")[0] + ",none\n"
    path = tmp_path / "t.csv"
    path.write_text("".join(lines))
    with pytest.raises(InputError, match=r"t\.csv, line 9877, column 20241231: 'none' found, a number is needed"):
        read_points(path)


def test_the_points_table_gives_the_tracks_back(tracks, tmp_path):
    write_points(list(tracks.values()), tmp_path / "p.parquet")
    for one, other in zip(tracks.values(), load_points(tmp_path / "p.parquet"), strict=True):
        assert one.point_id.tolist() == other.point_id.tolist()
        for name in ("epochs", "easting", "northing", "height", "los", "displacement"):
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


def test_the_squares_drawn_over_ustica_are_read_and_overlap(tracks):
    buildings = read_buildings(USTICA / "footprints_synthetic.geojson", "EPSG:3035")
    assert len(buildings) == 568
    np.testing.assert_allclose(buildings.area, 18.0**2, rtol=0.01)
    check_overlap(list(tracks.values()), buildings, "Ustica's points", "Ustica's footprints")


def test_amsterdam_is_not_ustica(tracks):
    path = AMSTERDAM / "footprints_synthetic.geojson"
    buildings = read_buildings(path, "EPSG:3035")
    assert len(buildings) == 40
    with pytest.raises(InputError, match=r"degrees east(.|\n)*footprints .*4\.9\d* to 4\.9\d* degrees east"):
        check_overlap(list(tracks.values()), buildings, "Ustica", str(path))
