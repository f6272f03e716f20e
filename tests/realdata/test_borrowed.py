"""Residuals of real points, into which damage is put: nothing of the real motion comes along."""

from pathlib import Path

import numpy as np
import pytest

from plumbline.simulate.borrowed.city import borrowed_layout
from plumbline.simulate.borrowed.track import Smooth, nearest_building
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.points.read import read_points

pytestmark = pytest.mark.realdata
ROOT = Path(__file__).parents[2]
USTICA = ROOT.parent / "shared/data/ustica"


@pytest.fixture(scope="module")
def ustica():
    if not USTICA.is_dir():
        pytest.skip("Ustica is not there: put the real products into ../shared/data/ustica")
    return USTICA


@pytest.mark.parametrize(
    "product", ["EGMS_L2b_117_0227_IW2_VV_2020_2024_1.zip", "EGMS_L2b_022_0845_IW2_VV_2020_2024_1.zip"]
)
def test_the_residual_is_noise_like_and_the_motion_is_gone(ustica, product):
    track = read_points(ustica / product)
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
