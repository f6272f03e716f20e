import numpy as np
import pytest
import shapely

from plumbline.core.compass import frames
from plumbline.simulate.structure.labels import strains
from plumbline.simulate.structure.layout import LEAST_WINGED_M, draw_outlines, inside, own_outlines, tilts_over

L_SHAPE = shapely.Polygon([(0, 0), (20, 0), (20, 8), (8, 8), (8, 16), (0, 16)])
BOX = shapely.box(0, 0, 20, 16)


def one(polygon):
    shapes = np.array([polygon], dtype=object)
    frame = frames(shapes)
    return frame.side, own_outlines(shapes, frame)


def labelled(polygon, up, along_x=lambda x, y: 0 * x):
    side, outline = one(polygon)
    return strains(lambda index, x, y: (up(x, y), along_x(x, y), 0 * x), side, outline=outline)


def test_a_rectangle_has_no_outline_and_an_l_its_own():
    assert one(BOX)[1][0] is None
    _, outline = one(L_SHAPE)
    places = np.array([(-9.9, -7.9), (9.9, -7.9), (-9.9, 7.9), (9.9, 7.9), (-2.1, 0.1)]).T
    np.testing.assert_array_equal(inside(outline, np.zeros(5, int), *places), [True, True, True, False, True])


def test_the_plane_is_that_over_the_footprint():
    """By the moments of the two boxes that the L is made of, against cells."""
    _, outline = one(L_SHAPE)
    x, y = (part.ravel() for part in np.meshgrid(np.arange(-9.975, 10, 0.05), np.arange(-7.975, 8, 0.05)))
    kept = inside(outline, np.zeros(len(x), int), x, y)
    x, y = x[kept], y[kept]
    expected = np.linalg.lstsq(np.column_stack([np.ones_like(x), x, y]), x * y, rcond=None)[0][1:]
    coarse = tilts_over(x * y, np.zeros(len(x), int), np.stack([x, y]), 1)[0]
    np.testing.assert_allclose(coarse, expected, atol=1e-9)
    # Twisting: up = x y / 10. On the rectangle no tilt is taken off, on the L a large one.
    steepest = max(
        np.abs(y / 10 - expected[0] / 10).max() / 2,  # bays along x see the slope y / 10 less the tilt
        np.abs(x / 10 - expected[1] / 10).max() / 2,
    )
    found = labelled(L_SHAPE, lambda x, y: x * y / 10)
    assert found.severity_permille[0] == pytest.approx(steepest, rel=0.02)


def test_a_bay_over_the_court_does_not_count():
    """A movement of what is not there: the corner that the L lacks."""
    found = labelled(L_SHAPE, lambda x, y: -5.0 * ((x > -1.9) & (y > 0.1)))
    assert found.severity_permille[0] == pytest.approx(0, abs=1e-9)
    assert labelled(BOX, lambda x, y: -5.0 * ((x > -1.9) & (y > 0.1))).severity_permille[0] > 0.3


def test_the_corner_of_a_slanted_wall_counts_though_no_line_of_the_lattice_meets_it():
    kite = shapely.Polygon([(-9, -7), (9, -7), (9, 7), (-7.3, 5.9)])
    found = labelled(kite, lambda x, y: -np.maximum(y - 4.9, 0) * (x < 0) * 10)
    reach = labelled(kite, lambda x, y: -np.maximum(y - 4.9, 0) * (x < 0) * 20)
    assert reach.severity_permille[0] == pytest.approx(2 * found.severity_permille[0], rel=1e-6)
    # The bay of 4 m along y that ends at the corner drops by 10 mm at its end: 2.5 mm/m, less a small tilt.
    assert found.severity_permille[0] == pytest.approx(1.25, rel=0.15)


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(2)
    side = rng.uniform(6, 60, (1500, 2))
    return side, np.array([shapely.Polygon(outline) for outline in draw_outlines(rng, side)], dtype=object)


def test_outlines_are_simple_and_fill_the_rectangle_they_were_drawn_for(drawn):
    side, polygon = drawn
    assert shapely.is_valid(polygon).all()
    assert (shapely.get_num_interior_rings(polygon) == 0).all()
    bounds = shapely.bounds(polygon)
    np.testing.assert_allclose(bounds, np.column_stack([-side / 2, side / 2]), atol=1e-9)


def test_the_building_frame_is_that_rectangle_wherever_the_building_is_turned(drawn):
    """Otherwise quadrants would hang on rounding."""
    side, polygon = drawn
    turned = np.array([shapely.affinity.rotate(one, 20, origin=(0, 0)) for one in polygon], dtype=object)
    found = frames(turned)
    np.testing.assert_allclose(found.side, side, atol=1e-6)
    np.testing.assert_allclose(found.angle, np.radians(20), atol=1e-6)


def test_every_shape_occurs(drawn):
    side, polygon = drawn
    vertices = np.array([shapely.get_num_coordinates(one) - 1 for one in polygon])
    convex = np.isclose(shapely.area(shapely.convex_hull(polygon)), shapely.area(polygon))
    assert set(vertices) == {4, 6, 8}  # rectangle or one corner drawn in; L; U or T
    eight = vertices == 8
    assert side[eight].min() >= LEAST_WINGED_M
    assert not convex[vertices > 4].any()
    # A U reaches all four corners of its rectangle, a T two.
    reach = [
        sum(shapely.intersects_xy(one, *(0.499 * s * sign)) for sign in ((1, 1), (1, -1), (-1, 1), (-1, -1)))
        for one, s in zip(polygon[eight], side[eight], strict=True)
    ]
    assert set(reach) == {2, 4}
