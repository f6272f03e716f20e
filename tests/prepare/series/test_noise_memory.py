import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.series.noise import EXPONENTS, LAGS, RHOS, kinds_of, power_law

EPOCHS = 120
WHEN = np.linspace(0, 1, EPOCHS)
DESIGN = np.stack([np.ones(EPOCHS), np.sin(5 * WHEN), np.cos(5 * WHEN), WHEN])
KINDS = kinds_of(DESIGN, WHEN)
COUNT = 1 + len(RHOS) + len(EXPONENTS)


@pytest.mark.parametrize("kept", [np.arange(EPOCHS), np.r_[0:40, 80:EPOCHS]], ids=["even", "uneven"])
def test_moments_are_those_of_residuals_of_drawn_noise(kept):
    """After a fit to the epochs that are there, of noise that went on in between."""
    rng, rho = np.random.default_rng(0), RHOS[2]
    noise = rng.normal(size=(20_000, EPOCHS))
    for t in range(1, EPOCHS):
        noise[:, t] = rho * noise[:, t - 1] + np.sqrt(1 - rho**2) * noise[:, t]
    design, noise = DESIGN[:, kept], noise[:, kept]
    residual = noise - noise @ np.linalg.pinv(design.T).T @ design
    kinds = kinds_of(design, WHEN[kept])
    for column, lag in enumerate((0, *LAGS)):
        found = (residual[:, lag:] * residual[:, : len(kept) - lag]).mean()
        assert kinds.moments[3, column] == pytest.approx(found, abs=0.01)
    assert kinds.line[3] == pytest.approx((noise @ np.linalg.pinv(design.T)[-1]).var(), rel=0.04)


def test_white_noise_loses_a_share_of_its_variance_to_each_column():
    assert KINDS.moments[0, 0] == pytest.approx(1 - len(DESIGN) / EPOCHS)
    assert KINDS.line[0] == pytest.approx(np.linalg.inv(DESIGN @ DESIGN.T)[-1, -1])


def test_power_laws_from_white_noise_to_a_random_walk():
    at = np.array([0, 1, 2, 5])
    np.testing.assert_allclose(power_law(at, 0.0), np.eye(4), atol=1e-12)
    # A walk that began 6 epochs before the first has the variance of its steps, and shares those up to the earlier.
    np.testing.assert_allclose(power_law(at, 2.0), 7 + np.minimum(at[:, None], at[None, :]))


@pytest.mark.parametrize("kind", range(1, COUNT))
@pytest.mark.parametrize("part", [0.3, 1.0])
def test_a_mixture_with_white_noise_is_taken_apart(kind, part):
    """Without chance, so of very many values: the kind and its part are known."""
    mixed = part * KINDS.moments[kind] + (1 - part) * KINDS.moments[0]
    true = (part * KINDS.line[kind] + (1 - part) * KINDS.line[0]) * KINDS.moments[0, 0] / mixed[0] / KINDS.line[0]
    found = KINDS.line_variance((mixed[1:] / mixed[0])[:, None], np.array([1e9]))
    assert found[0] == pytest.approx(true, rel=1e-3)


@given(st.lists(st.floats(-1, 1), min_size=len(LAGS), max_size=len(LAGS)), st.floats(8, 1e6))
def test_no_correlation_makes_an_error_that_is_not_positive(correlation, values):
    found = KINDS.line_variance(np.array(correlation)[:, None], np.array([values]))
    assert 0.99 < found[0] < 1000


def test_few_values_prove_nothing():
    """What chance gives 10 values says little; of 10,000 it would say much."""
    slow = KINDS.moments[-1, 1:] / KINDS.moments[-1, 0] * 0.3
    few, many = KINDS.line_variance(np.stack([slow, slow], 1), np.array([10.0, 1e4]))
    assert few < many


def test_few_epochs_over_a_long_time_need_little_memory():
    """A dense stretch makes the grid fine, and a late epoch makes it long: 9,000 steps for 40 epochs."""
    when = np.r_[np.arange(39.0), 9000.0]
    tracemalloc.start()
    kinds_of(np.stack([np.ones(40), when]), when)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6


@pytest.mark.parametrize("epochs", [2, 4, 5])
def test_few_epochs_are_no_error(epochs):
    when = np.linspace(0, 1, epochs)
    kinds = kinds_of(np.stack([np.ones(epochs), np.sin(5 * when), np.cos(5 * when), when]), when)
    assert (kinds.line_variance(np.full((len(LAGS), 3), 0.5), np.full(3, 50.0)) >= 1).all()
