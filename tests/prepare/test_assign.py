import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.assign import UNASSIGNED, assign_points


def owners(points, boxes, buffer_m):
    array = np.array(points, float).reshape(-1, 2)
    return assign_points(
        array[:, 0], array[:, 1], np.array([shapely.box(*b) for b in boxes], object), buffer_m
    ).tolist()


HOUSE, NEXT = (0, 0, 10, 10), (13, 0, 20, 10)


def test_a_point_belongs_to_the_footprint_it_lies_in():
    assert owners([(5, 5), (15, 5), (0.1, 9.9)], [HOUSE, NEXT], 2) == [0, 1, 0]


def test_a_point_outside_belongs_to_the_nearest_within_the_buffer():
    assert owners([(11.4, 5), (11.6, 5), (-1.9, 5), (-2.1, 5)], [HOUSE, NEXT], 2) == [0, 1, 0, UNASSIGNED]


def test_the_inside_counts_before_a_neighbour_that_is_near():
    assert owners([(9.9, 5)], [(10, 0, 20, 10), HOUSE], 5) == [1]


def test_without_a_buffer_only_the_inside_and_the_edge_count():
    assert owners([(5, 5), (10, 5), (10.01, 5)], [HOUSE], 0) == [0, 0, UNASSIGNED]


@pytest.mark.parametrize("buffer_m", [0, 2])
def test_of_two_equally_near_the_first_counts(buffer_m):
    assert owners([(10, 5)], [HOUSE, (10, 0, 20, 10)], buffer_m) == [0]
    assert owners([(10, 5)], [(10, 0, 20, 10), HOUSE], buffer_m) == [0]
    assert owners([(5, 5)], [(0, 0, 9, 9), HOUSE], buffer_m) == [0]


def test_a_corner_is_near_by_its_true_distance():
    assert owners([(11.4, 11.4), (11.5, 11.5)], [HOUSE], 2) == [0, UNASSIGNED]


def test_no_points_and_no_footprints_are_no_error():
    assert owners([], [HOUSE], 2) == []
    assert owners([(5, 5)], [], 2) == [UNASSIGNED]


coordinate = st.floats(-20, 20).map(lambda value: round(value, 2))
houses = st.lists(st.tuples(coordinate, coordinate, st.floats(1, 15), st.floats(1, 15)), min_size=1, max_size=5)


@given(st.lists(st.tuples(coordinate, coordinate), max_size=20), houses, st.floats(0, 10))
def test_the_owner_is_the_first_of_the_nearest(points, houses, buffer_m):
    boxes = [(x, y, x + a, y + b) for x, y, a, b in houses]
    for point, owner in zip(points, owners(points, boxes, buffer_m), strict=True):
        distance = [shapely.box(*b).distance(shapely.Point(point)) for b in boxes]
        nearest = int(np.argmin(distance))
        assert owner == (nearest if distance[nearest] <= buffer_m else UNASSIGNED)
