"""The shapes of damage: what they are, what they strain, and that they are closed under mirroring."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.features.definition import PREPARATION, quadrant_symmetry
from plumbline.prepare.response import shapes
from plumbline.prepare.response.shapes import (
    ALL,
    BENDING,
    BOWL,
    CORNER,
    END,
    LOG_PRIOR,
    MECHANISM,
    OPENINGS,
    PRIOR,
    PULLS,
    RADII_M,
    SIGNS,
    STEP,
    Shape,
    ShapeProfiles,
    displacement,
    responses,
    strains_per_mm,
)
from tests.prepare.made import ASCENDING, DESCENDING, los_of
from tests.strain import structure_strain

SIDE = np.array([[24.0, 18.0]])
MIRRORS = list(itertools.product([False, True], repeat=3))
"""Mirror x, mirror y, swap."""


def field_of(shape: Shape, side: np.ndarray, drop: float = 1.0):
    """The displacement of a building by a shape that drops by so many mm, as labels take it."""

    def field(x, y):
        x, y = np.broadcast_arrays(x, y)
        up, way = displacement(shape, ShapeProfiles(x.reshape(1, -1), y.reshape(1, -1), side))
        away = (shape.pull * drop * up * part for part in way)
        return (-drop * up).reshape(x.shape), *(part.reshape(x.shape) for part in away)

    return field


def at(shape: Shape, *places: tuple[float, float]) -> list[float]:
    x, y = np.array([places], float).transpose(2, 0, 1)
    return displacement(shape, ShapeProfiles(x, y, SIDE))[0][0].tolist()


@pytest.mark.parametrize("form", range(3))
def test_a_corner_is_one_at_its_corner_and_nothing_at_the_centre(form):
    for number, corner in enumerate(SIGNS):
        shape = Shape(CORNER, form, tuple(corner), 0.0, 0.0, 1.0)
        np.testing.assert_allclose(at(shape, *(SIGNS * SIDE / 2)), np.eye(4)[number], atol=1e-12)
        assert at(shape, (0, 0)) == [0]


def test_an_end_turns_about_its_hinge_and_a_joint_steps():
    south = Shape(END, 0, (0.0, -1.0), 0.45, 0.0, 1.0)
    np.testing.assert_allclose(at(south, (3, 9), (-8, -4.05), (5, -9), (0, -6.525)), [0, 0, 1, 0.5])
    joint = Shape(STEP, 0, (1.0, 0.0), 0.3, 0.0, 1.0)  # 3.6 m east of the centre, 1 m wide
    np.testing.assert_allclose(at(joint, (3.0, 5), (3.6, -2), (4.2, 0), (12, 9)), [0, 0.5, 1, 1])


def test_a_bowl_is_deepest_in_its_middle_and_draws_inwards():
    bowl, radius = Shape(BOWL, 1, (0.45, 0.0), 0.0, 0.0, 1.0), RADII_M[1]  # about (5.4, 0)
    aside, away = 5.4 + radius / 3, (5.4, -radius)
    np.testing.assert_allclose(at(bowl, (5.4, 0), (aside, 0), away), [1, np.exp(-0.5), np.exp(-4.5)])
    _, way = displacement(bowl, ShapeProfiles(np.array([[aside, 5.4]]), np.array([[0.0, -radius / 3]]), SIDE))
    np.testing.assert_allclose(np.stack(way)[:, 0].T, [[-1 / 3, 0], [0, 1 / 3]], atol=1e-12)


def test_a_trough_bends_across_its_axis_alone():
    trough = Shape(BENDING, 0, (0.0, 1.0), 0.0, 0.05, 1.0)  # inflection at 0.45 of 9 m
    np.testing.assert_allclose(at(trough, (0, 0), (11, 4.05), (-5, -4.05)), [1, np.exp(-0.5), np.exp(-0.5)])


def test_how_probable_each_shape_is_belongs_to_what_models_were_trained_on():
    """Other shares or shapes change what models read in the same columns: `PREPARATION` must rise with them, and models
    of before be trained anew. Where it rises for another reason, write the new number here."""
    assert (PULLS, OPENINGS, PRIOR, RADII_M, len(ALL), PREPARATION) == (
        {0.0: 0.6, 0.4: 0.25, 0.9: 0.15},
        {0.0: 0.6, 0.5: 0.4},
        (0.4, 0.15, 0.15, 0.2, 0.1),
        (3.5, 8.0),
        143,
        8,
    )


def test_a_response_is_the_displacement_along_the_line_of_sight():
    rng = np.random.default_rng(0)
    xy, los = rng.uniform(-0.5, 0.5, (1, 30, 2)) * SIDE, los_of(ASCENDING, DESCENDING)[rng.integers(0, 2, (1, 30))]
    found = responses(xy, los, SIDE)[0]
    for shape, one in zip(ALL, found, strict=True):
        up, x, y = field_of(shape, SIDE, -1.0)(*xy[0].T)
        np.testing.assert_allclose(one, (np.column_stack([x, y, up]) * los[0]).sum(1), atol=1e-12)


CLOSE = {CORNER: 0.01, END: 0.02, STEP: 0.04, BENDING: 0.03, BOWL: 0.18}
"""Largest error of a strain; of a narrow bowl under a long building it is twice that, as its lines are 3 m apart."""


@pytest.mark.parametrize("side", [(24, 18), (12, 30), (8, 8), (15, 11), (40, 10)])
def test_strains_are_those_of_the_label_definition(side):
    sides = np.array([side], float)
    found = strains_per_mm(sides)[0]
    for shape, by_quadrant in zip(ALL, found, strict=True):
        label = structure_strain(field_of(shape, sides), *map(float, side))
        close = CLOSE[shape.mechanism] * (2 if shape.mechanism == BOWL and max(side) == 40 else 1)
        assert by_quadrant.max() == pytest.approx(label.severity_permille, rel=close), shape
        assert by_quadrant[label.quadrant] >= 0.75 * by_quadrant.max(), shape


@pytest.mark.parametrize("lines", [9, 13])
def test_shapes_without_their_mirror_images_and_lines_strain_as_all_of_them_on_all_lines(lines):
    sides = np.array([(24, 18), (7, 5), (6, 30), (16, 16), (48, 9), (1, 3)], float)
    direct = shapes._strains_on(sides, list(ALL), (lines, lines))
    np.testing.assert_allclose(shapes._strains(sides, lines), direct, rtol=1e-9, atol=1e-12)


def mirrored(values, which):
    """Last axis x and y, after a symmetry."""
    sign = np.where(which[:2], -1, 1)
    return (values * sign)[..., ::-1] if which[2] else values * sign


@pytest.mark.parametrize("which", MIRRORS, ids=str)
@pytest.mark.parametrize("side", [(14.0, 9.0), (25.0, 25.0), (7.0, 31.0)])
def test_strains_are_mirrored_as_the_building_is(which, side):
    """Whatever the order of the shapes is then: each has a partner with its strains, and with its share."""
    sides = np.array([side])
    found = strains_per_mm(sides)[0]
    there = strains_per_mm(mirrored(sides, (False, False, which[2])))[0]
    back = np.empty_like(there)
    back[:, np.arange(4)] = there[:, quadrant_symmetry(*which)]
    rows = [np.column_stack([MECHANISM, LOG_PRIOR, values]).round(9) for values in (found, back)]
    one, other = (part[np.lexsort(part.T)] for part in rows)
    np.testing.assert_allclose(one, other, atol=1e-6)


@given(st.floats(2, 60), st.floats(2, 60))
def test_strains_of_any_size_are_near_those_of_whole_metres(side_x, side_y):
    """Rounded to 1 m, longer ones to 2 m: the strain of 1 mm changes by what the side does."""
    found = strains_per_mm(np.array([[side_x, side_y]]))[0, 0].max()
    step = np.where(np.array([side_x, side_y]) < 16, 1, 2)
    exact = structure_strain(field_of(ALL[0], np.array([[side_x, side_y]])), side_x, side_y).severity_permille
    assert found == pytest.approx(exact, rel=0.02 + 1.5 * float((step / 2 / [side_x, side_y]).sum()))


def test_a_city_of_any_buildings_is_looked_up_in_the_order_given(monkeypatch):
    monkeypatch.setattr(shapes, "_STRAINS", {})
    sides = np.array([[30.0, 9.0], [8.2, 8.4], [9.0, 30.0], [30.0, 9.0]])
    found = strains_per_mm(sides)
    assert len(shapes._STRAINS) == 3
    np.testing.assert_array_equal(found[0], found[3])
    for row, side in enumerate(sides):
        np.testing.assert_array_equal(strains_per_mm(side[None])[0], found[row])
    monkeypatch.setattr(shapes, "_STRAINS", {})
    np.testing.assert_allclose(strains_per_mm(sides[::-1]), found[::-1], rtol=1e-12)
