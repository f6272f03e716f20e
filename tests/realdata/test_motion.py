"""What the audit's rules on motion say of files as users have them, whatever processor made them."""

from pathlib import Path

import numpy as np
import pytest

from plumbline.params import Audit, Prepare, Product
from plumbline.prepare.audit.figures import FAST, noise_counts, quantile, speeds
from plumbline.prepare.audit.rules import MAX_NOISE_MM, MAX_SPEED_MM_YR, MIN_NOISE_MM
from plumbline.prepare.buildings import prepare_buildings
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.points.track import Track
from tests.sources.points.opening import read_points

DATA = Path(__file__).parents[3] / "shared" / "data"
ANGLES = Product(incidence_deg=39.0, heading_deg=192.0)
FILES = [
    ("ustica/EGMS_L2b_022_0845_IW2_VV_2020_2024_1.zip", Product()),
    ("ustica/EGMS_L2b_117_0227_IW2_VV_2020_2024_1.zip", Product()),
    ("ustica/EGMS_L3_E45N17_100km_E_2020_2024_1.zip", Product()),
    ("ustica/EGMS_L3_E45N17_100km_U_2020_2024_1.zip", Product()),
    ("amsterdam/depsi_tsx_2016.csv", ANGLES),
    ("maoxian/Maoxian_PS.csv", ANGLES),
    ("maoxian/Maoxian_SBAS.csv", ANGLES),
]
BOUNDS = Audit()
pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif(not DATA.is_dir(), reason="the real files are not there (../shared/data)"),
]


def noise_mm(track: Track) -> float:
    found = quantile(noise_counts([track], [np.arange(len(track))])[0], 0.5)
    assert found is not None
    return found


@pytest.mark.parametrize(("name", "about"), FILES, ids=[Path(name).stem for name, _ in FILES])
def test_the_noise_of_real_files_is_believable_and_that_of_another_unit_is_not(name, about):
    track = read_points(DATA / name, {"*": about})
    found = noise_mm(track)
    assert MIN_NOISE_MM < found < MAX_NOISE_MM
    assert found / 1000 < BOUNDS.refuse_noise_below_mm
    assert found * 1000 > BOUNDS.refuse_noise_above_mm


@pytest.mark.parametrize(("town", "files"), [("ustica", FILES[:2]), ("amsterdam", FILES[4:5])])
def test_the_speed_of_real_buildings_is_believable(town, files):
    tracks = [read_points(DATA / name, {"*": about}) for name, about in files]
    buildings = read_buildings(DATA / town / "footprints_synthetic.geojson", tracks[0].crs)[::4].reset_index(drop=True)
    counts = speeds(prepare_buildings(tracks, buildings, Prepare()).means)
    found = [quantile(own, FAST) for own in counts]
    assert all(value is not None and value < MAX_SPEED_MM_YR for value in found)
