"""Settlement, tilt and strain by levelled points, against closed forms."""

import geopandas
import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.serve.compare.levelled import LevelledPeriod, common_period, fit_houses
from plumbline.sources.levelling import Levelling
from tests.refusals import refuses

SIDES = np.array([20.0, 12.0])
BOLTS = np.array([(x, y) for x in (-10, 0, 10) for y in (-6, 0, 6) if (x, y) != (0, 0)], float)
DAY = np.datetime64("2020-01-01")
PLACE = np.array([500_000.0, 5_000_000.0])


def house(xy, change, turn=0.0, std=0.3):
    """What bolts at `xy` say of a block of 20 by 12 m that stands `turn` degrees from east."""
    block = shapely.affinity.rotate(shapely.box(*-SIDES / 2, *SIDES / 2), turn, (0, 0))
    footprints = geopandas.GeoDataFrame({"building_id": ["a"]}, geometry=[shapely.affinity.translate(block, *PLACE)])
    angle = np.radians(turn)
    places = xy @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]) + PLACE
    period = LevelledPeriod(DAY, DAY, np.asarray(change, float), np.full(len(xy), std))
    (found,) = fit_houses(period, np.zeros(len(xy), int), places, footprints)
    return found


@given(st.floats(-50, 5), st.floats(-5, 5), st.floats(-5, 5))
def test_a_plane_is_settlement_and_tilt_and_no_strain(settled, east, north):
    found = house(BOLTS, settled + BOLTS @ [east, north])
    assert found.settlement == pytest.approx(settled, abs=1e-9)
    np.testing.assert_allclose(found.tilt, [east, north], atol=1e-9)
    assert found.severity == pytest.approx(0, abs=1e-9)


def test_errors_are_those_of_the_bolts_and_of_what_the_house_does_between_them():
    still, bent = house(BOLTS, np.zeros(8)), house(BOLTS, 8.0 * (BOLTS[:, 0] > 5))
    assert 0.3 / np.sqrt(8) < still.settlement_std < 0.6
    assert bent.settlement_std > 3 * still.settlement_std
    assert house(BOLTS, np.zeros(8), std=3.0).settlement_std == pytest.approx(3 / np.sqrt(8), rel=0.1)


@pytest.mark.parametrize("turn", [0.0, 30.0])
def test_a_hinge_strains_by_half_of_its_slope_less_the_plane(turn):
    # The half x > 0 goes down by 1 mm/m. The plane has the slope -1/2; half of what is left is strain.
    found = house(BOLTS, -np.maximum(BOLTS[:, 0], 0), turn)
    assert found.severity == pytest.approx(0.25, abs=0.01)
    assert found.quadrant
    corner = house(BOLTS, -8.0 * ((BOLTS[:, 0] > 5) & (BOLTS[:, 1] > 5)), turn)
    assert corner.quadrant == "NE"


def test_bolts_on_a_line_or_too_few_tell_no_tilt():
    for xy in (BOLTS[:2], BOLTS[BOLTS[:, 1] == 6], BOLTS[:1]):
        found = house(xy, -3.0 * np.ones(len(xy)))
        assert found.settlement == pytest.approx(-3)
        assert np.isnan(found.tilt).all()
        assert np.isnan(found.severity)
        np.testing.assert_allclose(found.offset_m, xy.mean(0), atol=1e-6)
    assert np.isnan(house(BOLTS[[0, 2, 5]], np.zeros(3)).severity)


def levelling(dates, height, error=np.nan):
    height = np.array(height, float)
    names = np.array([f"p{n}" for n in range(len(height))], object)
    return Levelling("levels.csv", names, names, np.zeros((len(height), 2)), np.array(dates, "datetime64[D]"), height,
                     np.full(height.shape, error))  # fmt: skip


def test_the_period_is_levelled_and_within_the_record():
    dates = ["2018-01-01", "2020-01-10", "2020-01-20", "2022-06-01", "2023-12-20", "2025-01-01"]
    nan = np.nan
    heights = [[9, 0, nan, -1, -2, 9], [9, nan, 0, -1, -3, 9], [9, 0, nan, -1, nan, 9], [nan, nan, nan, nan, 4, nan]]
    found = common_period(levelling(dates, heights), np.datetime64("2020-01-01"), np.datetime64("2023-12-31"), 0.3)
    assert (str(found.begin), str(found.end)) == ("2020-01-10", "2023-12-20")
    np.testing.assert_equal(found.change, [-2, -3, nan, nan])
    np.testing.assert_allclose(found.std, 0.3 * np.sqrt(2))
    with refuses("levelling.other_period", "2023-12-01"):
        common_period(levelling(dates, heights), np.datetime64("2023-12-01"), np.datetime64("2024-06-01"), 0.3)
