import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plumbline.prepare.corners import PULLS, SHAPES, SIGNS, WAYS, corner_shape, fit_corners, strain_per_mm
from plumbline.strain import structure_strain
from tests.prepare.made import ASCENDING, DESCENDING, los_of

SIDE = np.array([[24.0, 18.0]])


def observe(rng, corner, drop, count=80, noise=0.3, shape=0, error=0.5, pull=0.0):
    """Fits of one building with a corner that dropped by `drop` mm and moved away by `pull` times that."""
    xy = rng.uniform(-0.5, 0.5, (1, count, 2)) * SIDE
    height, track = rng.uniform(0, 12, (1, count)), rng.integers(0, 2, (1, count))
    los = los_of(ASCENDING, DESCENDING)[track]
    up = drop * corner_shape(xy, SIDE, shape)[..., corner] if corner is not None else np.zeros((1, count))
    away = -pull * up[..., None] * SIGNS[corner or 0] / np.sqrt(2)
    residual = up * los[..., 2] + (away * los[..., :2]).sum(-1) + rng.normal(0, noise, (1, count))
    return fit_corners(
        xy, height, los, residual, np.full((1, count), error), track, np.ones((1, count), bool), SIDE
    )  # fmt: skip


@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_a_unit_shape_is_one_at_its_corner_and_nothing_at_the_centre(shape):
    corners = (SIGNS * SIDE / 2)[None]
    np.testing.assert_allclose(corner_shape(corners, SIDE, shape)[0], np.eye(4), atol=1e-12)
    np.testing.assert_array_equal(corner_shape(np.zeros((1, 1, 2)), SIDE, shape), 0)


def test_the_first_shape_is_the_product_of_the_distances_from_the_centre_lines():
    xy = np.array([[[6.0, 4.5], [6.0, -4.5], [-3.0, 9.0]]])
    np.testing.assert_allclose(corner_shape(xy, SIDE)[0], [[0.25, 0, 0, 0], [0, 0, 0, 0.25], [0, 0.25, 0, 0]])


@pytest.mark.parametrize("corner", range(4))
@pytest.mark.parametrize("drop", [-25.0, 12.0])
def test_a_known_corner_drop_comes_back(corner, drop):
    fits = [observe(np.random.default_rng(seed), corner, drop) for seed in range(10)]
    assert all(fit.gain[0].argmax() == corner for fit in fits)
    assert all(fit.log_odds[0].argmax() == corner for fit in fits)
    drops = [fit.drop[0, corner] for fit in fits]
    assert np.mean(drops) == pytest.approx(drop, rel=0.06)
    for fit in fits:
        expected = np.abs(fit.drop[0]) * strain_per_mm(24.0, 18.0)
        np.testing.assert_allclose(fit.severity[0], expected, rtol=1e-9)


@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_the_expected_severity_follows_the_shape_that_fits(shape):
    drop = 2.0 / strain_per_mm(24.0, 18.0, shape)
    fits = [observe(np.random.default_rng(seed), 2, -drop, shape=shape) for seed in range(10)]
    expected = [fit.expected_severity[0, 2] for fit in fits]
    assert np.mean(expected) == pytest.approx(2.0, rel=0.15)
    assert all(fit.log_odds[0].argmax() == 2 for fit in fits)


@pytest.mark.parametrize("pull", PULLS)
@pytest.mark.parametrize("corner", range(4))
def test_the_expected_severity_follows_how_far_a_corner_moves_away(corner, pull):
    drop = 2.0 / strain_per_mm(24.0, 18.0, 0, pull)
    fits = [observe(np.random.default_rng(seed), corner, -drop, pull=pull) for seed in range(10)]
    assert all(fit.log_odds[0].argmax() == corner for fit in fits)
    assert np.mean([fit.expected_severity[0, corner] for fit in fits]) == pytest.approx(2.0, rel=0.15)


def test_a_pull_is_not_told_where_the_line_of_sight_has_nothing_of_its_way():
    """Straight down and away look alike there: what is probable beforehand decides."""
    rng = np.random.default_rng(3)
    xy, count = rng.uniform(-0.5, 0.5, (1, 60, 2)) * SIDE, (1, 60)
    los = np.broadcast_to([0.5, -0.5, np.sqrt(0.5)], (*count, 3))  # nothing along the diagonal to the north-east
    residual = -10 * corner_shape(xy, SIDE)[..., 0] * los[..., 2]
    fit = fit_corners(
        xy, np.zeros(count), los, residual, np.full(count, 0.5), np.zeros(count, int), np.ones(count, bool), SIDE
    )
    each = [10 * strain_per_mm(24.0, 18.0, 0, pull) for pull in PULLS]
    assert fit.expected_severity[0, 0] == pytest.approx(np.average(each, weights=list(PULLS.values())), rel=0.1)


def test_what_a_corner_may_do_begins_with_what_the_engineer_fits():
    assert WAYS[0] == (0, 0.0)
    assert sum(PULLS.values()) == pytest.approx(1)


def test_without_damage_nothing_is_gained():
    fits = [observe(np.random.default_rng(seed), None, 0, noise=0.5) for seed in range(40)]
    assert np.median([fit.severity.max() for fit in fits]) < 0.3
    assert np.mean([fit.gain.max() for fit in fits]) < 3


def test_log_odds_are_probabilities():
    for seed in range(5):
        fit = observe(np.random.default_rng(seed), 1, -3.0, count=8, noise=2.0, error=2.0)
        assert np.exp(fit.log_odds).sum() == pytest.approx(1, abs=1e-4)


def test_few_points_near_the_middle_do_not_tell_of_metres():
    rng = np.random.default_rng(0)
    xy = rng.uniform(-0.05, 0.05, (200, 5, 2)) * SIDE
    count = xy.shape[:2]
    los = np.broadcast_to(los_of(ASCENDING), (*count, 3))
    fit = fit_corners(
        xy, np.zeros(count), los, rng.normal(0, 3, count), np.full(count, 3.0), np.zeros(count, int),
        np.ones(count, bool), np.broadcast_to(SIDE, (200, 2)),
    )  # fmt: skip
    assert fit.severity.max() < 2


def bilinear(side_x, side_y):
    """Severity of 1 mm in closed form, for sides of 8 m or more: the steepest edge line, less the tilt, halved."""
    half_x, half_y = side_x / 2, side_y / 2
    m = 1 / (half_x * half_y)
    tilt_x = m * (half_x**3 / 3) * (half_y**2 / 2) / (4 * half_x**3 / 3 * half_y)
    tilt_y = m * (half_y**3 / 3) * (half_x**2 / 2) / (4 * half_y**3 / 3 * half_x)
    return max(m * half_y - tilt_x, m * half_x - tilt_y) / 2


@pytest.mark.parametrize(("side_x", "side_y"), [(24, 18), (8, 8), (40, 9), (12, 30)])
def test_strain_per_mm_is_the_label_definition(side_x, side_y):
    assert strain_per_mm(side_x, side_y) == pytest.approx(bilinear(side_x, side_y), rel=0.02)


@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_strain_per_mm_is_proportional_and_alike_for_all_corners(shape):
    for sign_x, sign_y in SIGNS:

        def field(x, y, sign_x=sign_x, sign_y=sign_y):
            up = -7 * SHAPES[shape](np.stack([2 * sign_x * x / 21, 2 * sign_y * y / 13], axis=-1))
            return up, np.zeros_like(up), np.zeros_like(up)

        found = structure_strain(field, 21.0, 13.0)
        assert found.severity_permille == pytest.approx(7 * strain_per_mm(21.0, 13.0, shape), rel=1e-9)
        assert SIGNS[found.quadrant].tolist() == [sign_x, sign_y]


@settings(max_examples=60)
@given(st.floats(0.5, 60), st.floats(0.5, 60), st.sampled_from(range(len(SHAPES))), st.floats(0, 2))
def test_strain_per_mm_is_the_label_of_any_size(side_x, side_y, shape, pull):
    def field(x, y):
        up = SHAPES[shape](np.stack([2 * x / side_x, 2 * y / side_y], axis=-1))
        return -up, pull * up / np.sqrt(2), pull * up / np.sqrt(2)

    assert strain_per_mm(side_x, side_y, shape, pull) == pytest.approx(
        structure_strain(field, side_x, side_y).severity_permille, rel=1e-9
    )
