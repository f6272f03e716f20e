import numpy as np
import pytest

from plumbline.simulate.structure.tunnels import CITY_M, REACH_WIDTHS, Tunnel, arrival, draw_tunnels, greenfield, near

CHECK = Tunnel(point=(0.0, 0.0), direction=0.0, depth=15.0, diameter=6.0, volume_loss=0.015, k=0.5)


def test_published_check_figures():
    assert CHECK.width == pytest.approx(7.5)
    assert CHECK.largest_settlement == pytest.approx(22.5, abs=0.05)
    distance = np.linspace(-40, 40, 8001)
    slope = np.gradient(CHECK.vertical(distance), distance)
    assert np.abs(slope).max() == pytest.approx(1.8, abs=0.03)  # mm/m, that is 1.8e-3
    assert abs(distance[np.abs(slope).argmax()]) == pytest.approx(7.5, abs=0.02)


def test_trough_holds_the_lost_volume():
    """Volume of the trough a metre of tunnel: `sqrt(2 pi) i Smax = VL pi D^2 / 4`."""
    distance = np.linspace(-60, 60, 20001)
    volume = np.trapezoid(-CHECK.vertical(distance) / 1000, distance)
    assert volume == pytest.approx(0.015 * np.pi * 6**2 / 4, rel=2e-3)


def test_ground_moves_towards_the_axis_and_is_compressed_above_it():
    distance = np.array([-10.0, -1e-4, 0.0, 1e-4, 10.0])
    horizontal = CHECK.horizontal(distance)
    assert horizontal[0] > 0 > horizontal[-1]
    assert horizontal[0] == pytest.approx(10 * -CHECK.vertical(10.0) / 15)
    assert (horizontal[3] - horizontal[1]) / 2e-4 == pytest.approx(-CHECK.largest_settlement / 15, rel=1e-6)


def test_horizontal_strain_changes_sign_at_the_inflection_point():
    near = CHECK.width + np.array([-0.01, 0.01])
    strain = [np.diff(CHECK.horizontal(d + np.array([-1e-4, 1e-4])))[0] for d in near]
    assert strain[0] < 0 < strain[1]


def test_distance_counts_to_the_left_of_the_drive():
    north = Tunnel(point=(5.0, 0.0), direction=np.pi / 2, depth=15.0, diameter=6.0, volume_loss=0.01, k=0.4)
    np.testing.assert_allclose(north.distance(np.array([[0.0, 7.0], [9.0, -3.0]])), [5.0, -4.0], atol=1e-12)


def test_troughs_of_two_tunnels_add_up():
    east_north = np.array([[3.0, 4.0], [-20.0, 1.0]])
    np.testing.assert_allclose(greenfield([CHECK, CHECK], east_north), 2 * greenfield([CHECK], east_north))
    np.testing.assert_allclose(greenfield([CHECK], east_north)[:, 0], 0, atol=1e-12)  # nothing along the axis


def test_drawn_tunnels_keep_to_the_ranges():
    drawn = [tunnel for seed in range(200) for tunnel in draw_tunnels(np.random.default_rng(seed), 3000)]
    assert 200 < len(drawn) < 400
    for tunnel in drawn:
        assert 8 <= tunnel.depth <= 30
        assert 4 <= tunnel.diameter <= 12
        assert 0.005 <= tunnel.volume_loss <= 0.03
        assert 0.25 <= tunnel.k <= 0.5
        assert tunnel.depth >= 1.5 * tunnel.diameter


def test_the_face_arrives_later_further_along_the_drive():
    times = arrival([CHECK], np.array([[-400.0, 3.0], [0.0, -2.0], [400.0, 9.0], [9999.0, 0.0]]), 1000.0)
    np.testing.assert_allclose(times, [0.05 + 0.055, 0.325, 0.6 - 0.055, 0.6])


def test_a_larger_city_has_more_tunnels_and_a_small_one_no_fewer():
    counts = {
        size: np.mean([len(draw_tunnels(np.random.default_rng(seed), size * CITY_M)) for seed in range(200)])
        for size in (0.1, 1, 4)
    }
    assert counts[0.1] == counts[1] == pytest.approx(1.5, abs=0.15)
    assert counts[4] == 4 * counts[1]


def test_only_tunnels_that_reach_a_place_are_near_it():
    drawn = draw_tunnels(np.random.default_rng(3), 10 * CITY_M)
    place = np.array([[100.0, -200.0], [4000.0, 300.0]])
    reached = [t for t in drawn if np.abs(t.distance(place)).min() < REACH_WIDTHS * t.width + 3000]
    assert 0 < len(reached) < len(drawn)
    assert near(drawn, place, 3000.0) == reached
    assert len(near(drawn, place + 1e6, 10.0)) == 1  # none does: the nearest, for the time at which it passes
