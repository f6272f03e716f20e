"""Damage put into real points: what goes in can be found, and nothing of the real motion comes along."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plumbline.params import Borrowed, Prepare
from plumbline.params.simulate import Mechanisms
from plumbline.prepare.buildings import prepare_buildings
from plumbline.simulate.borrowed.city import borrowed_layout, write_borrowed
from plumbline.simulate.borrowed.track import Smooth, nearest_building
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.validate.measure import least_squares
from tests.sources.points.opening import read_points

pytestmark = pytest.mark.realdata
ROOT = Path(__file__).parents[2]
USTICA = ROOT.parent / "shared/data/ustica"


@pytest.fixture(scope="module")
def ustica():
    if not USTICA.is_dir():
        pytest.skip("Ustica is not there: put the real products into ../shared/data/ustica")
    return USTICA


@pytest.mark.slow
def test_severity_found_goes_with_severity_put_in(ustica, tmp_path):
    (tmp_path / "points").mkdir()
    for path in [*ustica.glob("EGMS_L2b*.zip"), ustica / "footprints_synthetic.geojson"]:
        (tmp_path / "points" / path.name).symlink_to(path)
    write_borrowed(
        tmp_path, "real", Borrowed(folder=tmp_path / "points", copies=3), 0, damaged=0.8, mechanisms=Mechanisms()
    )
    alike = []
    for city in sorted(tmp_path.glob("real*")):
        tracks = [read_points(path) for path in city.glob("EGMS*.csv")]
        buildings = read_buildings(city / "footprints.geojson", tracks[0].crs)
        sequences = prepare_buildings(tracks, buildings, Prepare()).sequences
        labels = pd.read_csv(city / "labels.csv").set_index("building_id").loc[sequences.building_id]
        assert len(labels) > 500
        alike.append(stats.spearmanr(labels["severity_permille"], least_squares(sequences).severity).statistic)
    # 0 within 0.025, if nothing of it came through. Quadrants are hardly better than chance in these points.
    assert np.mean(alike) > 0.1


def test_the_residual_is_noise_like_and_the_motion_is_gone(ustica):
    track = read_points(ustica / "EGMS_L2b_117_0227_IW2_VV_2020_2024_1.zip")
    years = (track.epochs - track.epochs[0]).astype(int) / 365.25
    smooth = Smooth(years)
    rows = np.arange(0, len(track), 4)
    series = track.displacement[rows].astype(float)
    residual = smooth.residual(series)
    line = np.linalg.pinv(np.stack([np.ones_like(years), years], axis=1))[1]
    assert np.std(series @ line) > 0.5  # mm a year: the island moves
    assert np.std(residual @ line) < 0.1 * np.std(series @ line)
    layout, origin = borrowed_layout(read_buildings(ustica / "footprints_synthetic.geojson", track.crs))
    place = np.stack([track.easting, track.northing], axis=1)[rows] - origin
    building, on = nearest_building(place, layout, 2.0)
    law = smooth.law(residual, np.where(on, building, -1))
    assert 0 <= law.rho < 0.9
    assert 0 <= law.common < 0.9
    assert 0.5 < np.median(smooth.sigma(residual, law)) < 10  # mm, as Sentinel-1 has
