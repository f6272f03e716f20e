import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from shapely import affinity

from plumbline.core.compass import QUADRANTS, frames, join_quadrants, of_likeliest, quadrant_code


def rectangle(length, width, degrees=0.0, centre=(0.0, 0.0)):
    box = shapely.box(-length / 2, -width / 2, length / 2, width / 2)
    return affinity.translate(affinity.rotate(box, degrees, origin=(0, 0)), *centre)


def frame_of(polygon):
    return frames(np.array([polygon], dtype=object))


@pytest.mark.parametrize(
    ("turned", "angle", "side"),
    [
        (0, 0, (20, 10)),
        (30, 30, (20, 10)),
        (-30, -30, (20, 10)),
        (60, -30, (10, 20)),
        (90, 0, (10, 20)),
        (44.999, 44.999, (20, 10)),
        (45.001, -44.999, (10, 20)),
        (180, 0, (20, 10)),
        # Of exactly 45 degrees the x axis is the one that is turned counter-clockwise.
        (45, 45, (20, 10)),
        (-135, 45, (20, 10)),
        (-45, 45, (10, 20)),
        (135, 45, (10, 20)),
    ],
)
def test_axes_are_turned_by_at_most_45_degrees(turned, angle, side):
    frame = frame_of(rectangle(20, 10, turned, centre=(4_321_000, 3_210_000)))
    assert np.rad2deg(frame.angle[0]) == pytest.approx(angle, abs=1e-6)
    np.testing.assert_allclose(frame.side[0], side, atol=1e-6)


@given(st.floats(6, 60), st.floats(6, 60), st.floats(-44, 44), st.floats(-1e3, 1e3), st.floats(-0.5, 0.5))
def test_frame_is_that_of_the_rectangle_wherever_it_stands(length, width, degrees, shift, share):
    frame = frame_of(rectangle(length, width, degrees, centre=(shift, -shift)))
    np.testing.assert_allclose(frame.side[0], (length, width), rtol=1e-6)
    np.testing.assert_allclose(frame.centre[0], (shift, -shift), atol=1e-6)
    x_axis = np.deg2rad(degrees)
    point = np.array([[shift + share * length * np.cos(x_axis), -shift + share * length * np.sin(x_axis)]])
    np.testing.assert_allclose(frame.to_building(np.array([0]), point)[0], (share * length, 0), atol=1e-4)


@given(st.floats(-44.9, 44.9), st.integers(0, 3))
def test_quadrants_turn_with_the_building(degrees, code):
    corner = np.array([[8.0, 4.0], [-8.0, 4.0], [-8.0, -4.0], [8.0, -4.0]])[code]
    turn = np.deg2rad(degrees)
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    local = frame_of(rectangle(20, 10, degrees)).to_building(np.array([0]), (rotation @ corner)[None])
    np.testing.assert_allclose(local[0], corner, atol=1e-6)
    assert quadrant_code(local[:, 0], local[:, 1])[0] == code


def test_an_l_shape_has_the_frame_of_its_rectangle():
    shape = affinity.rotate(rectangle(20, 12) - shapely.box(4, 2, 20, 20), 25, origin=(0, 0))
    frame = frame_of(shape)
    np.testing.assert_allclose(frame.centre[0], (0, 0), atol=1e-9)
    np.testing.assert_allclose(frame.side[0], (20, 12), atol=1e-9)
    assert np.rad2deg(frame.angle[0]) == pytest.approx(25)


@pytest.mark.parametrize(
    ("shape", "side", "degrees"),
    [
        (shapely.LineString([(0, 0), (10, 0)]), (10, 0), 0),
        (shapely.LineString([(0, 0), (0, 10)]), (0, 10), 0),
        (shapely.LineString([(0, 0), (8, 6)]), (10, 0), np.rad2deg(np.arctan2(6, 8))),
        (shapely.LineString([(8, -6), (2, 2)]), (0, 10), np.rad2deg(np.arctan2(6, 8))),
        (shapely.Polygon([(0, 0), (8, 6), (4, 3)]), (10, 0), np.rad2deg(np.arctan2(6, 8))),
        (shapely.Point(3, 4), (0, 0), 0),
    ],
)
def test_a_shape_without_extent_has_a_side_of_zero_also_beside_others(shape, side, degrees):
    frame = frames(np.array([shape, rectangle(20, 12)], dtype=object))
    np.testing.assert_allclose(frame.side[1], (20, 12), atol=1e-9)
    np.testing.assert_allclose(frame.side[0], side, atol=1e-9)
    np.testing.assert_allclose(frame.centre[0], shape.envelope.centroid.coords[0], atol=1e-9)
    assert np.rad2deg(frame.angle[0]) == pytest.approx(degrees)


def test_quadrants_are_named_counter_clockwise_and_axes_count_as_east_and_north():
    x, y = np.array([1.0, -1, -1, 1, 0, 0, 0, -1]), np.array([1.0, 1, -1, -1, 0, 1, -1, 0])
    assert [QUADRANTS[code] for code in quadrant_code(x, y)] == ["NE", "NW", "SW", "SE", "NE", "NE", "SE", "NW"]


def test_quadrants_are_joined_in_the_order_of_their_codes():
    assert join_quadrants([True, False, False, True]) == "NE|SE"
    assert join_quadrants(np.array([0, 1, 0, 0])) == "NW"
    assert join_quadrants([False] * 4) == ""
    assert join_quadrants([True] * 4).split("|") == list(QUADRANTS)
    probability = np.array([[0.1, 0.2, 0.6, 0.1], [0.4, 0.4, 0.1, 0.1]])  # of equals the first
    np.testing.assert_array_equal(of_likeliest(probability, np.arange(8).reshape(2, 4)), [2, 4])
    assert of_likeliest(np.empty((0, 4)), np.empty((0, 4))).shape == (0,)
