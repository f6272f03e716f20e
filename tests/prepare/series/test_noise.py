import numpy as np
import pytest
from scipy.signal import lfilter

from plumbline.prepare.series.noise import CUT, effective_share, kinds_of, rows_of, trusted, typical_variance


def correlated(rng, shape, rho):
    return lfilter([np.sqrt(1 - rho**2)], [1, -rho], rng.normal(size=shape), axis=1)


@pytest.mark.parametrize(("share", "epochs"), [(1.0, 30), (1.0, 31), (0.6, 31)])
def test_weights_are_those_of_each_series_alone(share, epochs):
    rng = np.random.default_rng(4)
    residual, known = rng.normal(0, 3, (20, epochs)), rng.random((20, epochs)) < share
    found = trusted(residual, known)
    for weight, own, told in zip(found, residual, known, strict=True):
        count = told.sum()
        middle = sorted(np.abs(own[told]))[(count - 1) // 2]
        scale = 1.4826 * middle * np.sqrt(count / (count - 4))
        wanted = told * np.maximum(1 - (own / (CUT * scale)) ** 2, 0) ** 2
        np.testing.assert_allclose(weight, wanted, atol=1e-8)


def test_one_bad_series_hardly_moves_what_is_typical():
    rows = rows_of(np.zeros(10, int))
    good, one_bad = np.full(10, 4.0), np.r_[np.full(9, 4.0), 40.0]
    np.testing.assert_allclose(typical_variance(good, rows), 4, rtol=1e-9)
    np.testing.assert_allclose(typical_variance(one_bad, rows), 4 * 10**0.1, rtol=1e-9)


EPOCHS = 200
WHEN = np.linspace(0, 1, EPOCHS)
DESIGN = np.stack([np.ones(EPOCHS), np.sin(6 * np.pi * WHEN), np.cos(6 * np.pi * WHEN), WHEN])


def shares(noise, buildings):
    """Residuals' effective shares, and the true one: what the spread of the lines through the noise says."""
    back = np.linalg.pinv(DESIGN.T)
    amplitude, residual = noise @ back[-1], noise - noise @ back.T @ DESIGN
    variance = (residual**2).sum(1) / (EPOCHS - len(DESIGN))
    rows = rows_of(np.repeat(np.arange(buildings), len(noise) // buildings))
    found = effective_share(residual, np.ones_like(noise), variance, rows, kinds_of(DESIGN, WHEN))
    white = variance.mean() * np.linalg.inv(DESIGN @ DESIGN.T)[-1, -1]
    return found, white / amplitude.var()


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6, 0.8])
def test_the_effective_share_of_an_autoregression_is_known(rho):
    found, true = shares(correlated(np.random.default_rng(2), (6000, EPOCHS), rho), 500)
    assert np.median(found) == pytest.approx(true, rel=0.3)  # of a square: 15 % of the standard error


def test_a_long_memory_beside_white_noise_is_seen():
    """The correlation of neighbours alone would say 0.4, of epochs that count by themselves."""
    rng = np.random.default_rng(3)
    noise = 0.6 * correlated(rng, (6000, EPOCHS), 0.85) + 0.8 * rng.normal(size=(6000, EPOCHS))
    found, true = shares(noise, 500)
    assert true < 0.3
    assert np.median(found) == pytest.approx(true, rel=0.25)


def test_a_series_after_an_unwrapping_error_keeps_its_own_correlation():
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(12, EPOCHS))
    noise[0] += np.where(np.arange(EPOCHS) < 100, -6, 6)
    found, _ = shares(noise, 1)
    assert found[0] < 0.1
    assert (found[1:] > 0.75).all()
