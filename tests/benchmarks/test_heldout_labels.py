import numpy as np
import pytest
import shapely

from benchmarks.heldout.frame import SIGNS, frame_of
from benchmarks.heldout.hinge import Hinge
from benchmarks.heldout.labels import label_of, lay_bays
from benchmarks.heldout.structure import draw_structures
from benchmarks.heldout.town import build_town
from benchmarks.heldout.trough import Trough, Tunnel, draw_trough, draw_tunnels
from plumbline.core.compass import QUADRANTS, frames
from tests.strain import structure_strain

HOUSE = shapely.affinity.rotate(shapely.box(500_000, 600_000, 500_020, 600_012), 30, origin="centroid")
FRAME = frame_of(HOUSE)
BAYS = lay_bays(HOUSE, FRAME)
L_SHAPE = shapely.Polygon([(0, 0), (30, 0), (30, 10), (10, 10), (10, 24), (0, 24)])


def up(values):
    return np.column_stack([values, np.zeros((len(values), 2))])


def test_rigid_motion_is_no_damage():
    assert label_of(lambda xy: up(-40 + 3 * xy[:, 0] - 5 * xy[:, 1]), BAYS).severity == pytest.approx(0, abs=1e-9)


def test_pure_stretch_is_its_own_strain_and_compression_is_none():
    assert label_of(lambda xy: np.column_stack([0 * xy[:, 0], 2.5 * xy[:, 0], 0 * xy[:, 0]]), BAYS).severity == (
        pytest.approx(2.5)
    )
    squeezed = label_of(lambda xy: -np.column_stack([0 * xy[:, 0], xy]), BAYS)
    assert squeezed.severity == pytest.approx(0, abs=1e-9)


def test_twist_has_half_the_slope_of_the_outermost_line():
    # x y over a rectangle: no plane to take off; the slope along x is y, largest on the edge y = 6.
    side = sorted(FRAME.side)
    label = label_of(lambda xy: up(0.1 * xy[:, 0] * xy[:, 1]), BAYS)
    assert label.severity == pytest.approx(0.1 * side[1] / 2 / 2, rel=1e-6)


def test_a_slope_and_a_stretch_combine_as_boscardin_and_cording():
    # The plane through a parabola about the centre is level, so the outermost bay has the parabola's own slope.
    label = label_of(lambda xy: np.column_stack([-0.05 * xy[:, 0] ** 2, 1.2 * xy[:, 0], 0 * xy[:, 0]]), BAYS)
    beta = 0.05 * (10**2 - 6**2) / 4
    assert label.severity == pytest.approx(0.6 + np.hypot(0.6, beta / 2), rel=1e-3)


@pytest.mark.parametrize("quadrant", range(4))
def test_a_failing_corner_is_found_in_its_quadrant(quadrant):
    hinge = Hinge(quadrant, 10.0, np.diag(SIGNS[quadrant]), np.ones(2), FRAME.side / 2 - 1, "power", 2.0, 0.0)
    assert label_of(hinge.field, BAYS).quadrant == QUADRANTS[quadrant]


def test_no_bay_leaves_the_footprint_and_corners_have_one():
    frame = frame_of(L_SHAPE)
    bays = lay_bays(L_SHAPE, frame)
    middle = (bays.start + bays.end) / 2 + frame.centre
    assert frame.angle == pytest.approx(0)
    assert shapely.dwithin(L_SHAPE, shapely.points(middle), 0.03).all()
    assert not ((middle[:, 0] > 10.1) & (middle[:, 1] > 10.1)).any()
    ends = np.concatenate([bays.start, bays.end]) + frame.centre
    for corner in shapely.get_coordinates(L_SHAPE):
        assert np.hypot(*(ends - corner).T).min() < 1e-6


def test_frames_are_those_of_the_project():
    town = build_town(np.random.default_rng(3), 60, "EPSG:3035")
    theirs = frames(town.footprint)
    np.testing.assert_allclose([f.centre for f in town.frame], theirs.centre, atol=0.02)
    np.testing.assert_allclose([f.angle for f in town.frame], theirs.angle, atol=1e-3)
    np.testing.assert_allclose([f.side for f in town.frame], theirs.side, atol=0.02)


def test_labels_of_rectangles_are_those_of_the_project():
    town = build_town(np.random.default_rng(4), 60, "EPSG:3035")
    structures, labels = draw_structures(np.random.default_rng(5), town)
    compared = 0
    for shape, structure, label in zip(town.shape, structures, labels, strict=True):
        if shape != "rectangle":
            continue

        def field(x, y, structure=structure):
            found = structure.field(np.column_stack([x.ravel(), y.ravel()]))
            return tuple(found[:, k].reshape(x.shape) for k in range(3))

        other = structure_strain(field, *structure.frame.side)
        assert label.severity == pytest.approx(other.severity_permille, rel=0.05, abs=0.03)  # bays at other steps
        compared += 1
    assert compared > 15


def test_a_trough_is_the_textbooks():
    # Peck's trough: D 6 m, volume loss 1.5 %, z0 15 m, K 0.5 gives 22.5 mm and a largest slope of 1.8e-3.
    largest = 313 * 0.015 * 6**2 / 7.5
    tunnel = Tunnel(np.zeros(2), np.array([1.0, 0.0]), 15.0, 7.5, largest)
    x = np.linspace(-30, 30, 601)
    field = tunnel.greenfield(np.column_stack([x, 0 * x]))
    assert field[:, 0].min() == pytest.approx(-22.5, abs=0.1)
    assert np.gradient(field[:, 0], x).max() == pytest.approx(1.8, abs=0.05)
    assert field[x == 6, 1][0] == pytest.approx(-6 / 15 * -field[x == 6, 0][0])


def test_a_stiff_building_bends_less_than_the_ground():
    generator = np.random.default_rng(0)
    tunnels = draw_tunnels(generator, FRAME.centre[None], 1)
    trough = draw_trough(generator, tunnels, FRAME, BAYS.cell)
    assert trough is not None
    free = Trough(trough.tunnel, FRAME, trough.plane, 1.0, 1.0)
    stiff = Trough(trough.tunnel, FRAME, trough.plane, 0.1, 0.01)
    assert label_of(stiff.field, BAYS).severity < 0.3 * label_of(free.field, BAYS).severity
