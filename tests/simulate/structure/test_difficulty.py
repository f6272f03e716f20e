import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.simulate.radar.noise import line_variance
from plumbline.simulate.structure.labels import (
    EASY_FROM,
    VISIBLE_PERMILLE,
    PointEvidence,
    difficulty,
    gather_evidence,
    no_evidence,
    point_precision,
    signal_to_noise,
)

SIDE = np.array([[18.0, 12.0]])


def level(strain, sigma, points, misplaced):
    precision = point_precision(np.full(points, sigma), np.full(points, 0.8), line_variance(100, 0.4))
    evidence = gather_evidence(np.zeros(points, int), precision, np.full((points, 2), misplaced), 1)
    return int(difficulty(np.array([strain]), SIDE, evidence)[0])


@given(st.floats(0, 10), st.floats(0.3, 8), st.integers(1, 150), st.floats(0, 10), st.floats(1, 3), st.integers(0, 100))
def test_more_strain_less_noise_or_more_points_are_never_harder(strain, sigma, points, misplaced, factor, more):
    before = level(strain, sigma, points, misplaced)
    assert level(strain * factor, sigma, points, misplaced) <= before
    assert level(strain, sigma / factor, points, misplaced) <= before
    assert level(strain, sigma, points + more, misplaced) <= before
    assert level(strain, sigma, points, misplaced / factor) <= before


def test_all_levels_occur_and_no_point_is_hard():
    assert [level(6.0, 1.5, 50, 0.3), level(1.5, 3.0, 15, 1.0), level(0.5, 3.0, 10, 4.0)] == [0, 1, 2]
    assert difficulty(np.array([6.0]), SIDE, no_evidence(1)).tolist() == [2]


def test_an_undamaged_building_is_as_hard_as_a_just_visible_damage_on_it():
    for points in (3, 12, 60, 400):
        assert level(0.0, 2.0, points, 0.2) == level(VISIBLE_PERMILLE, 2.0, points, 0.2)


def test_the_error_of_a_change_is_that_of_a_line_through_white_noise():
    rng, epochs = np.random.default_rng(0), 200
    when = np.linspace(0, 1, epochs)
    noise = rng.normal(0, 3.0, (20_000, epochs))
    change = noise @ np.linalg.pinv(np.stack([np.ones(epochs), when], axis=1))[1]
    expected = 1 / np.sqrt(point_precision(np.array([3.0]), np.array([1.0]), line_variance(epochs, 0.0))[0])
    assert change.std() == pytest.approx(expected, rel=0.03)


def test_signal_to_noise_is_the_drop_over_the_spread_of_found_drops():
    """A quarter of 40 points drops; the drop is the difference of two means. Half of the noise is misplacement."""
    rng, strain, count = np.random.default_rng(1), 1.5, 40
    side, sigma, misplaced = 20.0, 2.0, 0.8
    noise = rng.normal(0, sigma, (20_000, count)) + 2 * strain * rng.normal(0, misplaced, (20_000, count))
    found = noise[:, :10].mean(axis=1) - noise[:, 10:].mean(axis=1)
    evidence = PointEvidence(np.array([count / sigma**2]), np.array([float(count)]), np.array([count * misplaced**2]))
    expected = strain * side / found.std()
    assert signal_to_noise(np.array([strain]), np.array([[side, side]]), evidence)[0] == pytest.approx(
        expected, rel=0.03
    )
    assert expected < EASY_FROM * 3
