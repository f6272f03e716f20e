import numpy as np
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.assignment.nearest import UNASSIGNED, assign_points


def owners(points, boxes, buffer_m, last=None):
    array = np.array(points, float).reshape(-1, 2)
    footprints = np.array([shapely.box(*b) for b in boxes], object)
    return assign_points(
        array[:, 0], array[:, 1], footprints, buffer_m, None if last is None else np.array(last)
    ).owner.tolist()


HOUSE, NEXT = (0, 0, 10, 10), (13, 0, 20, 10)


def test_a_point_outside_belongs_to_the_nearest_within_the_buffer():
    assert owners([(11.4, 5), (11.6, 5), (-1.9, 5), (-2.1, 5)], [HOUSE, NEXT], 2) == [0, 1, 0, UNASSIGNED]


def test_without_a_buffer_only_the_inside_and_the_edge_count():
    assert owners([(5, 5), (10, 5), (10.01, 5)], [HOUSE], 0) == [0, 0, UNASSIGNED]


def test_no_points_and_no_footprints_are_no_error():
    assert owners([], [HOUSE], 2) == []
    assert owners([(5, 5)], [], 2) == [UNASSIGNED]


coordinate = st.floats(-20, 20).map(lambda value: round(value, 2))
houses = st.lists(st.tuples(coordinate, coordinate, st.floats(1, 15), st.floats(1, 15)), min_size=1, max_size=5)


points_drawn = st.lists(st.tuples(coordinate, coordinate), max_size=20)


def boxes_of(houses):
    return [(x, y, x + a, y + b) for x, y, a, b in houses]


@given(points_drawn, houses, st.floats(0, 10), st.data())
def test_the_owner_is_the_nearest_or_the_smallest_around_of_those_that_do_not_come_last(points, houses, buffer_m, data):
    boxes = boxes_of(houses)
    last = data.draw(st.lists(st.booleans(), min_size=len(boxes), max_size=len(boxes)))
    for point, owner in zip(points, owners(points, boxes, buffer_m, last), strict=True):
        shapes = [shapely.box(*b) for b in boxes]
        distance = [shape.distance(shapely.Point(point)) for shape in shapes]
        ranks = [(last[row], far, 0 if far else shapes[row].area, row) for row, far in enumerate(distance)]
        assert owner == min((rank for rank in ranks if rank[1] <= buffer_m), default=[UNASSIGNED])[-1]


@given(points_drawn, houses, st.floats(0, 10), st.data())
def test_who_looks_at_some_footprints_only_finds_the_same_owners_among_them(points, houses, buffer_m, data):
    boxes = boxes_of(houses)
    last = data.draw(st.lists(st.booleans(), min_size=len(boxes), max_size=len(boxes)))
    own = sorted(data.draw(st.sets(st.integers(0, len(boxes) - 1), min_size=1)))
    everyone = owners(points, boxes, buffer_m, last)
    some = owners(points, [boxes[row] for row in own], buffer_m, [last[row] for row in own])
    for one, other in zip(everyone, some, strict=True):
        if one in own:
            assert own[other] == one
