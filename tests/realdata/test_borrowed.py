"""Damage put into real points: what goes in can be found, and nothing of the real motion comes along."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plumbline.params import Prepare, Simulate
from plumbline.prepare.buildings import prepare_buildings
from plumbline.simulate.borrowed.city import borrowed_layout
from plumbline.simulate.borrowed.track import Smooth, nearest_building
from plumbline.simulate.stage import simulate
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.points.read import read_points
from plumbline.validate.measure import least_squares

pytestmark = pytest.mark.realdata
PATTERNS = ("EGMS_L2b*.zip", "EGMS_L2b*.csv", "*.geojson")
ROOT = Path(__file__).parents[2]
USTICA = ROOT.parent / "shared/data/ustica"


def recover(folder: Path) -> pd.DataFrame:
    """Put damage into the products of `folder`, and look for it: severity and quadrant put in, found, and level."""
    with tempfile.TemporaryDirectory() as scratch:
        borrowed, out = Path(scratch) / "borrowed", Path(scratch) / "out"
        borrowed.mkdir()
        for path in (path for pattern in PATTERNS for path in folder.glob(pattern)):
            (borrowed / path.name).symlink_to(path.resolve())
        small = {"band": "C", "buildings": 4, "seed": 0}
        sections = {"cities": {"unused": small}, "showcase": small, "borrowed": {"real": {"folder": borrowed}}}
        simulate(Simulate.model_validate(sections), out, workers=1)
        city = out / "cities" / "real"
        tracks = [read_points(path) for path in sorted(city.glob("*.csv")) if path.name != "labels.csv"]
        buildings = read_buildings(city / "footprints.geojson", tracks[0].crs)
        labels = pd.read_csv(city / "labels.csv", keep_default_na=False).set_index("building_id")
        sequences = prepare_buildings(tracks, buildings, Prepare()).sequences
    found = least_squares(sequences)
    put_in = labels.loc[sequences.building_id]
    return pd.DataFrame(
        {
            "put_in": put_in["severity_permille"].to_numpy(),
            "found": np.asarray(found.severity, float),
            "quadrant": put_in["quadrant"].to_numpy(),
            "found_quadrant": np.array(["NE", "NW", "SW", "SE"])[np.asarray(found.probability).argmax(axis=1)],
            "level": put_in["difficulty"].to_numpy(),
        }
    )


@pytest.fixture(scope="module")
def ustica():
    if not USTICA.is_dir():
        pytest.skip("Ustica is not there: put the real products into ../shared/data/ustica")
    return USTICA


def test_severity_found_goes_with_severity_put_in(ustica):
    table = recover(ustica)
    assert len(table) > 500
    assert table["put_in"].rank().corr(table["found"].rank()) > 0.15  # 0 within 0.042, if nothing of it came through
    damaged = table[(table.quadrant != "") & (table.level != "hard")]
    assert (damaged.quadrant == damaged.found_quadrant).mean() > 0.3  # by chance 0.25 within 0.03


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
