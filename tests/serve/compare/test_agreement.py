"""Differences of radar and levelling with the errors of both."""

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely

from plumbline.serve.compare.agreement import HALF_STRAIN_SPACING_M, _severities, compare_houses, format_agreement
from plumbline.serve.compare.levelled import House, LevelledPeriod
from tests.serve.made import whole_buildings
from tests.serve.test_predictions import predictions

DAY = np.datetime64("2020-01-01")


def compared(count=3, settlement=0.0, tilt=(0.0, 0.0), levelled=0.0, off=(0.0, 0.0)):
    """Compare buildings that one track sees at 0.8 up: figures by radar, their variances being 1, beside levels."""
    whole = whole_buildings(
        0.8 * np.broadcast_to(np.array(settlement, float), count)[:, None],
        [[0.6, 0.0, 0.8]],
        variance=np.full((count, 1), 0.64),
        tilt=np.tile(tilt, (count, 1)),
        tilt_covariance=np.tile(np.eye(2), (count, 1, 1)),
        agreeing=np.full((count, 1), 10**12),  # so many that the level of the ground is known
    )
    names = [f"b{number}" for number in range(count)]
    table = predictions(names, ["ok"] * count)
    table = table.set_geometry(geopandas.GeoSeries([shapely.box(0, 0, 9, 9)] * count, crs="EPSG:3035"))
    zero = np.zeros(2)
    houses = [House(row, 4, levelled, 1.0, np.array(off), zero, np.eye(2), 1.0, 0.1) for row in range(count)]
    return compare_houses(houses, table, whole, LevelledPeriod(DAY, DAY, zero, zero))


def test_two_buildings_keep_their_difference_and_three_lose_that_of_the_datums():
    two = compared(2, -5.0, levelled=-3.0)
    assert two.table["settlement_difference_mm"].tolist() == pytest.approx([-2, -2])
    assert two.table["settlement_difference_std_mm"].tolist() == pytest.approx([np.sqrt(2)] * 2)
    assert "everywhere" not in format_agreement(two)
    three = compared(3, [-5.0, -5.0, -15.0], levelled=-3.0)
    assert three.datum_mm == pytest.approx(-2)
    assert three.datum_std_mm == pytest.approx(np.sqrt(np.pi / 2 * 2 / 3))
    assert three.table["settlement_difference_mm"].tolist() == pytest.approx([0, 0, -10])
    assert three.table["settlement_agrees"].tolist() == [True, True, False]
    assert "settlement of 2 of 3 buildings" in format_agreement(three)
    assert "the radar shows 2.0 mm more settlement everywhere" in format_agreement(three)


def test_bolts_on_one_side_are_brought_to_the_middle_by_the_tilt_of_the_radar():
    found = compared(2, -3.0, tilt=(0.5, 0.0), levelled=-1.0, off=(4.0, 0.0)).table
    assert found["levelled_settlement_mm"].tolist() == pytest.approx([-3, -3])
    assert found["levelled_settlement_std_mm"].tolist() == pytest.approx([np.sqrt(1 + 4**2)] * 2)


@pytest.mark.parametrize(("tilt", "agrees"), [((2.9, 0.0), True), ((0.0, 3.1), False)])
def test_tilts_agree_within_the_ellipse_that_holds_90_percent(tilt, agrees):
    found = compared(1, tilt=tilt).table.iloc[0]  # 2.146 times the square root of 2 is 3.03
    assert found["tilt_agrees"] == agrees
    assert found["tilt_difference_mm_m"] == pytest.approx(max(tilt))
    assert found["tilt_difference_std_mm_m"] == pytest.approx(np.sqrt(2))


def test_a_levelled_strain_is_raised_by_what_bends_between_its_points():
    dense, wide = (
        [House(0, 4, 0.0, 1.0, *_PLANE, 1.0, 0.1, spacing=spacing)] for spacing in (0.0, HALF_STRAIN_SPACING_M)
    )
    tables = [_severities(houses, own_of(radar=2.0, low=1.0, high=4.0)) for houses in (dense, wide)]
    assert [table["severity_difference_permille"][0] for table in tables] == pytest.approx([1.0, 0.0])
    assert [table["levelled_severity_permille"][0] for table in tables] == [1.0, 1.0]  # as it was levelled


_PLANE = (np.zeros(2), np.zeros(2), np.eye(2))


def own_of(radar, low, high):
    return pd.DataFrame({"severity_permille": [radar], "severity_low": [low], "severity_high": [high]})
