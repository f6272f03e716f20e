import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.compass import quadrant_code
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, quadrant_symmetry, symmetry

FLAGS = list(itertools.product((False, True), repeat=3))
TABLES = [DISTANCE, SLOPE, GEOMETRY]


def matrix(columns, flags):
    """The symmetry as a matrix that columns, as vectors, are multiplied by."""
    source, sign = symmetry(columns, *flags)
    result = np.zeros((len(columns), len(columns)), int)
    result[np.arange(len(columns)), source] = sign.astype(int)
    return result


@pytest.mark.parametrize("columns", TABLES, ids=["distance", "slope", "geometry"])
def test_the_eight_symmetries_form_a_group(columns):
    elements = {flags: matrix(columns, flags) for flags in FLAGS}
    assert np.array_equal(elements[False, False, False], np.eye(len(columns)))
    for one, other in itertools.product(elements.values(), repeat=2):
        assert sum(np.array_equal(one @ other, element) for element in elements.values()) == 1
    for one in elements.values():
        assert any(np.array_equal(one @ other, np.eye(len(columns))) for other in elements.values())


@pytest.mark.parametrize("columns", TABLES, ids=["distance", "slope", "geometry"])
def test_all_columns_multiply_alike(columns):
    """The product of two symmetries is the same symmetry for every table and for the labels."""
    square = np.array([[1, 0], [0, 1]])
    act = {}
    for x, y, swap in FLAGS:
        moved = np.diag([-1 if x else 1, -1 if y else 1]) @ square
        act[x, y, swap] = (moved[::-1] if swap else moved).tolist()
    for one, other in itertools.product(FLAGS, repeat=2):
        product = next(f for f in FLAGS if act[f] == (np.array(act[other]) @ np.array(act[one])).tolist())
        assert np.array_equal(matrix(columns, other) @ matrix(columns, one), matrix(columns, product))
        assert np.array_equal(quadrant_symmetry(*other)[quadrant_symmetry(*one)], quadrant_symmetry(*product))


coordinate = st.floats(-30, 30).filter(lambda value: abs(value) > 1e-3)


@given(coordinate, coordinate, st.sampled_from(FLAGS))
def test_coordinates_and_quadrant_move_as_a_point_does(x, y, flags):
    mirror_x, mirror_y, swap = flags
    u, v = (-x if mirror_x else x), (-y if mirror_y else y)
    u, v = (v, u) if swap else (u, v)
    row = np.array([x, y, x / 10, y / 5, np.hypot(x, y), 3.0])
    np.testing.assert_allclose(
        matrix(DISTANCE, flags) @ row,
        [u, v, *((y / 5, x / 10) if swap else (x / 10, y / 5)), np.hypot(x, y), 3.0]
        * np.array([1, 1, np.sign(u * (y if swap else x)), np.sign(v * (x if swap else y)), 1, 1]),
    )
    old, new = (int(quadrant_code(np.array([a]), np.array([b]))[0]) for a, b in ((x, y), (u, v)))
    assert quadrant_symmetry(*flags)[old] == new
