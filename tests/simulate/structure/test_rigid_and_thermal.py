import numpy as np
import pytest

from plumbline.simulate.structure.motion import (
    MOST_SETTLEMENT_MM,
    MOST_TILT_MM_M,
    WARMEST_DAY,
    Rigid,
    Thermal,
    draw_rigid,
)

ONE = np.array([0])


def test_tilt_is_a_small_rotation():
    """Distances between points do not change to first order, up the height too."""
    rigid = Rigid(settlement=np.array([-30.0]), tilt=np.array([[4.0, -3.0]]))
    rng = np.random.default_rng(0)
    place = rng.uniform(-20, 20, (3, 50))
    up, along_x, along_y = rigid.field(np.zeros(50, int), *place)
    moved = place + 1e-3 * 1e-3 * np.stack([along_x, along_y, up])  # a thousandth of the motion: first order only
    before, after = (np.linalg.norm(p[:, :, None] - p[:, None, :], axis=0) for p in (place, moved))
    np.testing.assert_allclose(after, before, atol=1e-8)


def test_a_roof_leans_away_from_the_rising_side():
    rigid = Rigid(settlement=np.array([0.0]), tilt=np.array([[2.0, 0.0]]))
    up, along_x, along_y = rigid.field(ONE, np.array([10.0]), np.array([5.0]), np.array([25.0]))
    assert (up[0], along_x[0], along_y[0]) == (20.0, -50.0, 0.0)


def test_most_buildings_move_little_and_a_few_very_far():
    """Shares of the log-normal laws: the normal distribution at the logarithm of each bound."""
    rigid = draw_rigid(np.random.default_rng(0), 50_000)
    down, tilt = -rigid.settlement[rigid.settlement < 0], np.hypot(*rigid.tilt.T)
    assert (tilt > 2).mean() == pytest.approx(0.256, abs=0.01)
    assert (tilt > 12).mean() == pytest.approx(0.027, abs=0.004)
    assert (down > 10).mean() == pytest.approx(0.322, abs=0.01)
    assert (down > 100).mean() == pytest.approx(0.023, abs=0.004)
    assert down.max() == MOST_SETTLEMENT_MM
    assert tilt.max() == pytest.approx(MOST_TILT_MM_M)
    assert (rigid.settlement == 0).mean() == pytest.approx(0.1, abs=0.01)
    assert 0.05 < (rigid.settlement > 0).mean() < 0.08


def test_heat_lifts_by_height_and_stretches_from_the_fixed_point():
    thermal = Thermal(np.array([1e-5]), np.array([10.0]), np.array([[2.0, -1.0]]), np.array([0.0]))
    up, along_x, along_y = thermal.field(ONE, np.array([12.0]), np.array([-6.0]), np.array([20.0]))
    assert (up[0], along_x[0], along_y[0]) == pytest.approx((2.0, 1.0, -0.5))


def test_the_season_is_yearly_and_highest_in_summer():
    thermal = Thermal(np.array([1e-5]), np.array([10.0]), np.zeros((1, 2)), np.array([0.0]))
    days = np.array([WARMEST_DAY, WARMEST_DAY + 365.25 / 2, WARMEST_DAY + 365.25])
    np.testing.assert_allclose(thermal.season(ONE, days)[0], [1, -1, 1], atol=1e-12)
