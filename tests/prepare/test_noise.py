import numpy as np
import pytest
from scipy.signal import lfilter

from plumbline.prepare.noise import CUT, effective_share, rows_of, trusted, typical_variance


def correlated(rng, shape, rho):
    return lfilter([np.sqrt(1 - rho**2)], [1, -rho], rng.normal(size=shape), axis=1)


def test_rows_know_where_buildings_begin():
    rows = rows_of(np.array([0, 0, 3, 7, 7, 7]))
    assert rows.start.tolist() == [0, 2, 3]
    assert rows.total(np.arange(6.0)).tolist() == [1, 2, 12]
    assert rows.spread(np.array([5, 6, 7])).tolist() == [5, 5, 6, 7, 7, 7]


def test_far_values_do_not_count_and_near_ones_do():
    rng = np.random.default_rng(0)
    residual = rng.normal(0, 2, (40, 100))
    known = rng.random(residual.shape) < 0.9
    residual[:, ::10] = 27.75
    weight = trusted(residual, known)
    assert (weight[:, ::10] == 0).all()
    assert (weight[~known] == 0).all()
    near = known & (np.abs(residual) < 1)
    assert weight[near].min() > 0.9
    assert (weight[np.abs(residual) > 1.3 * CUT * 2] == 0).all()


def test_what_is_unknown_does_not_matter():
    residual = np.random.default_rng(1).normal(size=(5, 50))
    known = np.arange(50) % 3 > 0
    known = np.broadcast_to(known, residual.shape)
    changed = np.where(known, residual, 1e6)
    np.testing.assert_array_equal(trusted(residual, known), trusted(changed, known))


def test_one_bad_series_hardly_moves_what_is_typical():
    rows = rows_of(np.zeros(10, int))
    good, one_bad = np.full(10, 4.0), np.r_[np.full(9, 4.0), 40.0]
    np.testing.assert_allclose(typical_variance(good, rows), 4, rtol=1e-9)
    np.testing.assert_allclose(typical_variance(one_bad, rows), 4 * 10**0.1, rtol=1e-9)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6, 0.8])
def test_the_effective_share_is_that_of_the_noise_before_the_fit(rho):
    """(1 - rho) / (1 + rho), and what makes up for the variance that the fit took beyond that of white noise."""
    rng = np.random.default_rng(2)
    epochs = 100
    noise = correlated(rng, (600, epochs), rho)
    when = np.linspace(0, 1, epochs)
    season = 2 * np.pi * 3 * when
    design = np.stack([when, np.ones(epochs), np.sin(season), np.cos(season)], axis=1)
    residual = noise - noise @ np.linalg.pinv(design).T @ design.T
    found = effective_share(residual, np.ones_like(noise), residual.var(axis=1), rows_of(np.zeros(600, int)))
    expected = (1 - rho) / (1 + rho) * (1 - 4 / epochs * (1 + rho) / (1 - rho)) / (1 - 4 / epochs)
    assert np.median(found) == pytest.approx(expected, rel=0.2)


def test_a_series_after_an_unwrapping_error_keeps_its_own_correlation():
    rng = np.random.default_rng(3)
    residual = rng.normal(size=(12, 100))
    residual[0] += np.where(np.arange(100) < 50, -6, 6)
    found = effective_share(residual, np.ones_like(residual), residual.var(axis=1), rows_of(np.zeros(12, int)))
    assert found[0] < 0.3
    assert (found[1:] > 0.6).all()
