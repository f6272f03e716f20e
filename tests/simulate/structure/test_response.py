import numpy as np
import pytest

from plumbline.core.compass import Frames
from plumbline.core.strain import structure_strain
from plumbline.simulate.structure.response import building_response, draw_response
from plumbline.simulate.structure.tunnels import Tunnel, greenfield

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


def test_a_building_far_away_is_not_reached():
    assert respond(1.0, 1.0).reached.tolist() == [True, True, False]
    assert np.abs(respond(1.0, 1.0).field(2, np.zeros(1), np.zeros(1))).max() < 1e-3


def test_drawn_factors_keep_to_the_published_ranges():
    many = Frames(np.zeros((500, 2)), np.zeros(500), np.full((500, 2), 12.0))
    drawn = draw_response(np.random.default_rng(0), [TUNNEL], many)
    assert 0.1 <= drawn.deflection.min() < 0.15
    assert 0.95 < drawn.deflection.max() <= 1
    assert 0.01 <= drawn.strain.min() < 0.012
    assert 0.18 < drawn.strain.max() <= 0.2
