import numpy as np
import pytest
from scipy import stats

from plumbline.prepare.response.rigid_body import FREEDOM, log_density, misfit, student_fit


def systems(rng, count=200, points=30, error=1.0, beyond=0.0):
    """Straight lines with known noise: design, values, stated errors, mask, true parameters."""
    x = rng.uniform(-10, 10, (count, points))
    design = np.stack([x, np.ones_like(x)], axis=-1)
    truth = rng.normal(0, 5, (count, 2))
    values = np.einsum("bpk,bk->bp", design, truth) + rng.normal(0, np.hypot(error, beyond), (count, points))
    return design, values, np.full_like(x, error), rng.random(x.shape) < 0.9, truth


WEAK = np.array([1e-8, 1e-8])


def test_a_fifth_of_outliers_hardly_moves_it():
    rng = np.random.default_rng(1)
    design, values, error, mask, truth = systems(rng)
    spoilt = values + 50 * (rng.random(values.shape) < 0.2)
    fit = student_fit(design, spoilt, error, mask, WEAK)
    assert np.median(np.abs(fit.solution[:, 1] - truth[:, 1])) < 0.5  # plain least squares: 10
    lifted = (spoilt - values > 0) & mask
    assert np.quantile(fit.weight[lifted], 0.9) < 0.1
    assert np.median(fit.weight[~lifted & mask]) > 0.9


@pytest.mark.parametrize(("beyond", "least", "most"), [(0.0, 0.0, 0.35), (1.0, 0.5, 1.1), (3.0, 2.2, 3.3)])
def test_spread_is_what_the_errors_have_beyond_their_stated_ones(beyond, least, most):
    """A scale of Student's t: below the standard deviation where the errors are normal, as here."""
    design, values, error, mask, _ = systems(np.random.default_rng(2), points=100, beyond=beyond)
    spread = student_fit(design, values, error, mask, WEAK).spread
    assert least <= np.sqrt(np.mean(spread**2)) <= most


def test_the_density_is_that_of_students_t():
    residual, scale = np.random.default_rng(0).normal(0, 20, 200), np.geomspace(0.1, 50, 200)
    np.testing.assert_allclose(log_density(residual, scale), stats.t.logpdf(residual, FREEDOM, scale=scale))


def test_a_column_that_no_value_of_the_system_needs_changes_nothing():
    """Systems are solved together, so a building may carry columns of tracks that it has no scatterer of."""
    design, values, error, mask, _ = systems(np.random.default_rng(4), points=6)
    wider = np.concatenate([design, np.zeros((*design.shape[:2], 2))], axis=2)
    fit = student_fit(design, values, error, mask, WEAK)
    same = student_fit(wider, values, error, mask, np.full(4, 1e-8))
    np.testing.assert_allclose(same.solution[:, :2], fit.solution, atol=1e-9)
    np.testing.assert_allclose(same.spread, fit.spread, atol=1e-9)
    np.testing.assert_allclose(same.weight, fit.weight, atol=1e-9)


def test_the_last_precision_is_one_over_the_variance_of_the_last_parameter():
    design, values, error, mask, _ = systems(np.random.default_rng(8), count=9)
    fit = student_fit(design, values, error, mask, WEAK)
    # At the end, weights and spread are those of the solution but one: after ten rounds, the same to four digits.
    scale = fit.weight * mask / (error**2 + fit.spread[:, None] ** 2)
    covariance = np.linalg.inv(np.einsum("bpi,bp,bpj->bij", design, scale, design) + np.diag(WEAK))
    np.testing.assert_allclose(fit.last_precision, 1 / covariance[:, 1, 1], rtol=0.05)


def test_misfit_is_the_log_density_of_students_t():
    rng = np.random.default_rng(6)
    one, other = rng.normal(0, 5, (2, 4, 9))
    variance, mask = rng.uniform(0.5, 4, (4, 9)), rng.random((4, 9)) < 0.7
    density = [stats.t.logpdf(r, FREEDOM, scale=np.sqrt(variance)) for r in (one, other)]
    expected = -((density[0] - density[1]) * mask).sum(1)
    np.testing.assert_allclose(misfit(one, variance, mask) - misfit(other, variance, mask), expected, rtol=1e-10)
