import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.strain import (
    CATEGORY_BOUNDS_PERMILLE,
    LEVEL_EDGES_PERMILLE,
    bay_length,
    category,
    category_of_levels,
    principal_tensile_strain,
)
from tests.strain import Field, structure_strain

sides = st.floats(4, 60)


def field_of(up=None, along_x=None, along_y=None) -> Field:
    parts = [part or (lambda x, y: np.zeros_like(x)) for part in (up, along_x, along_y)]
    return lambda x, y: tuple(part(x, y) for part in parts)  # type: ignore[return-value]


def test_principal_tensile_strain_of_shear_tension_compression_and_of_two_combined():
    strain = principal_tensile_strain([2.0, 0.0, 0.0, 1.5], [0.0, 3.0, -3.0, 2.0])
    np.testing.assert_allclose(strain, [1.0, 3.0, 0.0, 1 + np.sqrt(1 + 0.75**2)])


@given(sides, sides, st.floats(-100, 100), st.floats(-5, 5), st.floats(-5, 5))
def test_rigid_motion_has_no_strain(side_x, side_y, settlement, tilt_x, tilt_y):
    field = field_of(up=lambda x, y: settlement + tilt_x * x + tilt_y * y, along_x=lambda x, y: np.full_like(x, 7.0))
    assert structure_strain(field, side_x, side_y).severity_permille == pytest.approx(0, abs=1e-9)


@given(sides, sides, st.floats(0.01, 5), st.booleans())
def test_pure_horizontal_tension_is_its_own_strain(side_x, side_y, eps, along_y):
    field = field_of(along_y=lambda x, y: eps * y) if along_y else field_of(along_x=lambda x, y: eps * x)
    assert structure_strain(field, side_x, side_y).severity_permille == pytest.approx(eps, rel=1e-9)


@pytest.mark.parametrize("along_x", [lambda x, y: -x, lambda x, y: y], ids=["compression", "shear"])
def test_without_tension_along_an_axis_there_is_no_strain(along_x):
    assert structure_strain(field_of(along_x=along_x), 20, 12).severity_permille == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("side", "bay"), [(60, 4), (8.5, 4), (8, 4), (7.9, 3.95), (6, 3), (1, 0.5)])
def test_bay_length_is_half_of_a_short_side(side, bay):
    assert bay_length(side) == bay


@given(sides, sides)
def test_parabola_gives_the_slope_over_the_bay_at_the_edge(side_x, side_y):
    """`c x^2` has no tilt about the centre; the outermost bay's chord slope is `c (side - bay)`."""
    strain = structure_strain(field_of(up=lambda x, y: 0.1 * x**2), side_x, side_y)
    assert strain.severity_permille == pytest.approx(0.1 * (side_x - bay_length(side_x)) / 2, rel=1e-9)


@pytest.mark.parametrize("code", range(4))
def test_linear_ramp_of_one_corner(code):
    """Drop `m x y` beyond hinges through the centre: steepest on the edge lines, less the tilt in closed form."""
    sign_x, sign_y = [(1, 1), (-1, 1), (-1, -1), (1, -1)][code]
    half_x, half_y, m = 12.0, 9.0, 0.05

    def up(x, y):
        return -m * np.maximum(sign_x * x, 0) * np.maximum(sign_y * y, 0)

    # Area-weighted tilt along x: integral of up * x over integral of x^2, both over the rectangle.
    tilt_x = m * (half_x**3 / 3) * (half_y**2 / 2) / (4 * half_x**3 / 3 * half_y)
    tilt_y = m * (half_y**3 / 3) * (half_x**2 / 2) / (4 * half_y**3 / 3 * half_x)
    expected = max(m * half_y - tilt_x, m * half_x - tilt_y) / 2
    strain = structure_strain(field_of(up=up), 2 * half_x, 2 * half_y, spacing=0.25)
    assert strain.severity_permille == pytest.approx(expected, rel=2e-3)
    assert strain.quadrant == code


def test_all_quadrants_that_are_strained_nearly_as_much_are_accepted():
    """A joint along y through the middle strains all four; one corner's ramp its own alone, and an end both of its."""
    step = structure_strain(field_of(up=lambda x, y: np.where(x > 0.5, -5.0, 0.0)), 20, 12)
    assert step.accepted == (0, 1, 2, 3)
    corner = structure_strain(field_of(up=lambda x, y: -np.maximum(-x, 0) * np.maximum(y, 0)), 20, 12)
    assert (corner.quadrant, corner.accepted) == (1, (1,))
    end = structure_strain(field_of(up=lambda x, y: -np.maximum(y - 3, 0.0)), 12, 20)
    assert end.accepted == (0, 1)


@pytest.mark.parametrize(("share", "accepted"), [(0.89, (0,)), (0.91, (0, 3)), (1.0, (0, 3))])
def test_a_quadrant_with_nine_tenths_of_the_strain_is_accepted(share, accepted):
    field = field_of(along_x=lambda x, y: np.maximum(x - 1, 0) * np.where(y >= 0, 1.0, share))
    assert structure_strain(field, 20, 12).accepted == accepted


def test_each_level_lies_in_the_category_of_its_lower_bound():
    levels = category_of_levels()
    np.testing.assert_array_equal(levels, [0] * 5 + [1] * 2 + [2] * 3 + [3] * 3 + [4] * 3)
    assert set(CATEGORY_BOUNDS_PERMILLE) < set(LEVEL_EDGES_PERMILLE)
    np.testing.assert_array_equal(category(np.array(LEVEL_EDGES_PERMILLE) + 0.05), levels[1:])


def test_category_bounds_belong_to_the_upper_category():
    at_bounds = [0.0, 0.4999, 0.5, 0.7499, 0.75, 1.4999, 1.5, 2.9999, 3.0, 50.0]
    np.testing.assert_array_equal(category(at_bounds), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
