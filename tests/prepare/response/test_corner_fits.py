import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plumbline.core.strain import structure_strain
from plumbline.prepare.features.definition import PREPARATION
from plumbline.prepare.response import corner_fits as corners
from plumbline.prepare.response.corner_fits import (
    LIKELY_PERMILLE,
    LIKELY_TILT,
    PULLS,
    SHAPES,
    SIGNS,
    WAYS,
    WEAK_OFFSET,
    corner_shape,
    fit_corners,
    strain_per_mm,
)
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
    return fit_corners(xy, height, los, residual, np.full((1, count), error), track, np.ones((1, count), bool), SIDE)


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


def test_how_probable_each_way_is_belongs_to_what_models_were_trained_on():
    """Other shares change what models read in the same columns: `PREPARATION` must rise with them, and models of before
    be trained anew (decision 36). Where it rises for another reason, write the new number here."""
    assert (PULLS, PREPARATION) == ({0.0: 0.6, 0.4: 0.25, 0.9: 0.15}, 6)


PLACES, TIMES = 60, 50


def along_los(xy, los, corner, shape, pull):
    """Movement of scatterers along LOS for a corner that rises by 1 mm and moves in by `pull` mm."""
    inwards_and_up = np.array([*(-pull * SIGNS[corner] / np.sqrt(2)), 1.0])
    return corner_shape(xy[None], SIDE, shape)[0, :, corner] * (los @ inwards_and_up)


def gaussian(xy, height, los, track, values, variance):
    """Gain, log odds and expected severity where all is normal: then values have a covariance, and need no fit."""
    on_track = track[:, None] == [0, 1]
    rigid = np.column_stack([los[:, 2:] * xy - los[:, :2] * height[:, None], on_track])
    undamaged = np.eye(len(xy)) * variance + rigid * np.repeat([LIKELY_TILT, WEAK_OFFSET], 2) ** 2 @ rigid.T
    fits = np.empty((4, len(WAYS), 3))
    for corner in range(4):
        for number, (shape, pull) in enumerate(WAYS):
            response = along_los(xy, los, corner, shape, pull)
            per_mm = strain_per_mm(*SIDE[0], shape, pull)
            likely = (LIKELY_PERMILLE / per_mm) ** 2
            covariance = undamaged + likely * np.outer(response, response)
            told = np.linalg.solve(covariance, values)
            density = -(np.linalg.slogdet(covariance)[1] + values @ told) / 2
            gain = values @ (np.linalg.solve(undamaged, values) - told) / 2
            fits[corner, number] = gain, density, abs(likely * response @ told) * per_mm
    gain, density, severity = np.moveaxis(fits, 2, 0)
    weight = np.exp(density - density.max()) * [PULLS[pull] for _, pull in WAYS]
    odds = weight.sum(1) / weight.sum()
    return gain[:, 0], np.log(odds), (weight * severity).sum(1) / weight.sum(1)


@pytest.mark.parametrize(
    ("corner", "shape", "pull", "drop"), [(0, 0, 0.0, -60.0), (1, 1, 0.4, -40.0), (2, 2, 0.9, -60.0), (3, 0, 0.9, 30.0)]
)
def test_the_evidence_is_exact_where_everything_is_normal(corner, shape, pull, drop):
    """Student's t of small residuals is a normal distribution with 4/5 of the variance, and Laplace's approximation has
    no error there. Many scatterers at one place, each with a large error, are one with a small error."""
    rng = np.random.default_rng(corner)
    xy, height = rng.uniform(-0.5, 0.5, (PLACES, 2)) * SIDE, rng.uniform(0, 12, PLACES)
    track = rng.integers(0, 2, PLACES)
    los = los_of(ASCENDING, DESCENDING)[track]
    left = los[:, 2] * (xy @ [4.0, -2.0]) - height * (los[:, :2] @ [4.0, -2.0])  # tilts as large as are thought likely
    values = drop * along_los(xy, los, corner, shape, pull) + left
    error, count = 150.0, (1, PLACES * TIMES)
    many = [np.repeat(part, TIMES, axis=0)[None] for part in (xy, height, los, values)]
    fit = fit_corners(*many, np.full(count, error), np.repeat(track, TIMES)[None], np.ones(count, bool), SIDE)
    gain, log_odds, severity = gaussian(xy, height, los, track, values, 0.8 * error**2 / TIMES)
    np.testing.assert_allclose(fit.gain[0], gain, atol=0.02)
    np.testing.assert_allclose(fit.log_odds[0], log_odds, atol=0.02)
    np.testing.assert_allclose(fit.expected_severity[0], severity, atol=0.01)


def keep(monkeypatch, *ways):
    """Nothing but these ways, all as probable."""
    monkeypatch.setattr(corners, "WAYS", list(ways))
    monkeypatch.setattr(corners, "LOG_PRIOR", np.zeros(len(ways)))


def test_what_else_a_corner_may_do_changes_nothing_of_the_engineers_answer(monkeypatch):
    """Also where another shape that moves away explains the scatterers far better."""
    fit = observe(np.random.default_rng(4), 1, -20.0, shape=1, pull=0.9)
    keep(monkeypatch, (0, 0.0))
    alone = observe(np.random.default_rng(4), 1, -20.0, shape=1, pull=0.9)
    for name in ("drop", "drop_se", "gain", "severity"):
        np.testing.assert_allclose(getattr(fit, name), getattr(alone, name), rtol=1e-9, err_msg=name)
    keep(monkeypatch, (1, 0.9))
    assert observe(np.random.default_rng(4), 1, -20.0, shape=1, pull=0.9).gain[0, 1] > fit.gain[0, 1] + 10


def test_all_ways_count_the_same_where_a_corner_explains_nothing(monkeypatch):
    """Beside what a thousand exact scatterers tell of one corner, the probability of another is 0 to a computer."""
    made = {"count": 1000, "noise": 0.1, "error": 0.1}
    fit = observe(np.random.default_rng(5), 0, -60.0, **made)
    each = []
    for way in WAYS:
        keep(monkeypatch, way)
        each.append(observe(np.random.default_rng(5), 0, -60.0, **made).severity[0])
    np.testing.assert_allclose(fit.expected_severity[0, 1:], np.mean(each, axis=0)[1:], rtol=1e-6)
    assert fit.expected_severity[0, 0] == pytest.approx(60 * strain_per_mm(24.0, 18.0), rel=0.01)


def test_stated_errors_that_are_all_too_small_are_not_believed():
    """What scatterers really err by counts: however little they state, no more certain of a corner."""
    for seed in range(5):
        fit, other = (observe(np.random.default_rng(seed), 2, -12.0, noise=3.0, error=error) for error in (0.05, 1.0))
        np.testing.assert_allclose(fit.gain, other.gain, rtol=0.05, atol=0.2)
        np.testing.assert_allclose(fit.log_odds, other.log_odds, atol=0.3)


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
        xy,
        np.zeros(count),
        los,
        rng.normal(0, 3, count),
        np.full(count, 3.0),
        np.zeros(count, int),
        np.ones(count, bool),
        np.broadcast_to(SIDE, (200, 2)),
    )
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
