import numpy as np
import pytest
import shapely

from plumbline.core.compass import frames
from plumbline.simulate.structure.footprints import LEAST_WINGED_M, draw_outlines


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
    reach = [sum(shapely.intersects_xy(one, *(0.499 * s * sign)) for sign in ((1, 1), (1, -1), (-1, 1), (-1, -1)))
             for one, s in zip(polygon[eight], side[eight], strict=True)]  # fmt: skip
    assert set(reach) == {2, 4}
