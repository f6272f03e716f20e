"""What the readers must hold of files of other processors than EGMS's L2, and what those are like."""

import csv
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from plumbline.params import Product
from plumbline.sources.files.opened import find_csv
from plumbline.sources.points.track import Track
from tests.sources.points.opening import read_points

DATA = Path(__file__).parents[3] / "shared" / "data"
DEPSI = DATA / "amsterdam" / "depsi_tsx_2016.csv"
PS, SBAS = DATA / "maoxian" / "Maoxian_PS.csv", DATA / "maoxian" / "Maoxian_SBAS.csv"
EAST = DATA / "ustica" / "EGMS_L3_E45N17_100km_E_2020_2024_1.zip"
UP = DATA / "ustica" / "EGMS_L3_E45N17_100km_U_2020_2024_1.zip"
ANGLES = {"*": Product(incidence_deg=39.0, heading_deg=192.0)}
STAMPS = pytest.mark.parametrize("path", [PS, SBAS], ids=["PS", "SBAS"])
pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif(not DATA.is_dir(), reason="the real files are not there (../shared/data)"),
]


def lines(path: Path) -> list[list[str]]:
    with find_csv(path).open() as stream:
        return list(csv.reader(stream.read().decode().splitlines()))


def slopes(track: Track) -> NDArray[np.float64]:
    """mm/yr of a straight line through each series."""
    years = (track.epochs - track.epochs[0]).astype(float) / 365.25
    return np.asarray(np.polyfit(years, track.displacement.T.astype(float), 1)[0])


def test_depsi_is_read_in_mm_from_metres_and_begins_with_zero():
    track = read_points(DEPSI, ANGLES)
    assert track.displacement.shape == (2500, 11)
    assert (track.crs, track.name) == ("EPSG:32631", "depsi_tsx_2016")
    assert (track.displacement[:, 0] == 0).all()
    # X band: half a wavelength is 15.5 mm; metres taken for mm would show no motion, mm for metres too much.
    assert 1 < np.abs(track.displacement[:, 1:]).mean() < 15.5
    assert np.abs(track.displacement).max() < 17
    first = lines(DEPSI)[1]
    np.testing.assert_allclose(track.displacement[0], [1000 * float(cell) for cell in first[13:24]], rtol=1e-6)
    assert track.point_id[0] == first[1]
    assert track.height[0] == float(first[7])


@pytest.mark.parametrize(("path", "shape", "places"), [(PS, (97, 41), 97), (SBAS, (608, 38), 486)], ids=["PS", "SBAS"])
def test_stamps_s_points_are_all_read_and_some_share_a_place(path, shape, places):
    track = read_points(path, ANGLES)
    assert track.displacement.shape == shape
    assert track.crs == "EPSG:32648"
    assert len(set(zip(track.easting, track.northing, strict=True))) == places
    np.testing.assert_allclose(track.displacement[0], [float(cell) for cell in lines(path)[2][3:]], rtol=1e-6)
    assert not track.height.any()


@STAMPS
def test_stamps_s_days_are_sentinel_1_s(path):
    # Intrieri et al. (2018), Landslides 15: 123-133: Sentinel-1 saw Maoxian from 9 October 2014 to 19 June 2017, and it
    # comes every 6 days or a multiple. So the numbers in the file are one less than MATLAB's of those days.
    days = read_points(path, ANGLES).epochs
    assert str(days[-1]) == "2017-06-19"
    assert set((days - np.datetime64("2014-10-09")).astype(int) % 6) == {0}
    assert date.fromordinal(int(lines(path)[1][-1]) - 366) == date(2017, 6, 18)


@pytest.mark.parametrize(("path", "correlation", "error"), [(PS, 0.999, 0.01), (SBAS, 0.9, 0.2)], ids=["PS", "SBAS"])
def test_stamps_s_third_column_is_the_rate_of_the_series_in_mm_a_year(path, correlation, error):
    # So days, unit and order are right. With small baselines, StaMPS fits pairs of epochs, not the series.
    value = np.array([float(line[2]) for line in lines(path)[2:]])
    found = slopes(read_points(path, ANGLES))
    assert np.corrcoef(value, found)[0, 1] > correlation
    assert np.polyfit(value, found, 1)[0] == pytest.approx(1, abs=error)


@pytest.mark.parametrize(("path", "vector"), [(UP, [0, 0, 1]), (EAST, [1, 0, 0])], ids=["up", "east"])
def test_l3_is_read_as_motion_up_or_east_in_cells_of_100_m(path, vector):
    track = read_points(path)
    assert track.displacement.shape == (522, 304)
    assert (track.los == vector).all()
    assert set(track.easting % 100) == set(track.northing % 100) == {50}
    header = lines(path)[0]
    velocity = np.array([float(line[header.index("mean_velocity")]) for line in lines(path)[1:]])
    t = (track.epochs - track.epochs[0]).astype(float) / 365.25
    basis = np.stack([np.ones_like(t), t, np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)], axis=1)
    rate = np.linalg.lstsq(basis, track.displacement.T.astype(float), rcond=None)[0][1]
    assert np.abs(rate - velocity).max() < 0.105
