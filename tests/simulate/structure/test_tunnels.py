import numpy as np
import pytest

from plumbline.core.compass import Frames
from plumbline.simulate.structure.tunnels import (
    CITY_M,
    REACH_WIDTHS,
    Tunnel,
    arrival,
    building_response,
    draw_tunnels,
    greenfield,
    tunnels_near,
)
from tests.strain import structure_strain

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
    assert tunnels_near(drawn, place, 3000.0) == reached
    assert len(tunnels_near(drawn, place + 1e6, 10.0)) == 1  # none does: the nearest, for the time at which it passes


TUNNEL = Tunnel(point=(0.0, 0.0), direction=0.3, depth=12.0, diameter=6.0, volume_loss=0.02, k=0.4)
FRAMES = Frames(
    centre=np.array([[2.0, 5.0], [-3.0, -4.0], [900.0, 900.0]]),
    angle=np.array([0.5, -0.2, 0.1]),
    side=np.array([[24.0, 12.0], [9.0, 14.0], [20.0, 20.0]]),
)


def respond(deflection, strain):
    return building_response([TUNNEL], FRAMES, np.full(3, deflection), np.full(3, strain))


def lattice(side):
    return np.meshgrid(np.linspace(-side[0] / 2, side[0] / 2, 41), np.linspace(-side[1] / 2, side[1] / 2, 41))


def test_undamped_building_moves_as_the_ground():
    response = respond(1.0, 1.0)
    for building in (0, 1):
        x, y = (part.ravel() for part in lattice(FRAMES.side[building]))
        turn, centre = FRAMES.angle[building], FRAMES.centre[building]
        place = centre + np.stack([x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)], axis=1)
        ground = greenfield([TUNNEL], place)
        plan = FRAMES.rotate(np.full(len(x), building), ground[:, :2])
        up, along_x, along_y = response.field(building, x, y)
        np.testing.assert_allclose(up, ground[:, 2], atol=1e-9)
        np.testing.assert_allclose(np.stack([along_x, along_y], axis=1), plan, atol=1e-9)


def test_stiff_building_moves_as_a_rigid_body():
    response = respond(0.0, 0.0)
    for building in (0, 1):
        assert structure_strain(
            lambda x, y, b=building: response.field(b, x, y), *FRAMES.side[building]
        ).severity_permille == pytest.approx(0, abs=1e-9)


def test_the_plane_is_the_least_squares_plane_of_the_ground():
    response = respond(1.0, 1.0)
    nodes = (np.arange(400) + 0.5) / 400 - 0.5
    for building in (0, 1):
        x, y = (part.ravel() for part in np.meshgrid(*(nodes * side for side in FRAMES.side[building])))
        up = response.field(building, x, y)[0]
        plane = np.linalg.lstsq(np.stack([np.ones_like(x), x, y], axis=1), up, rcond=None)[0]
        np.testing.assert_allclose(plane[0], response.mean[building, 2], atol=1e-3)
        np.testing.assert_allclose(plane[1:], response.tilt[building], atol=1e-4)


def test_damping_scales_what_departs_from_the_plane():
    x, y = lattice(FRAMES.side[0])
    whole, half = (respond(share, share).field(0, x, y) for share in (1.0, 0.5))
    rigid = respond(0.0, 0.0).field(0, x, y)
    for w, h, r in zip(whole, half, rigid, strict=True):
        np.testing.assert_allclose(h - r, 0.5 * (w - r), atol=1e-9)
