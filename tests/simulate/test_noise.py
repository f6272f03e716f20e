import numpy as np
import pytest

from plumbline.simulate.noise import add_bad_epochs, add_jumps, correlated


def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6])
def test_correlated_noise_has_its_deviation_and_correlation_from_the_first_epoch_on(rho):
    noise = correlated(rng(), np.full(20_000, 3.0), 30, rho)
    np.testing.assert_allclose(noise.std(axis=0), 3.0, rtol=0.03)
    for lag in (1, 2):
        found = (noise[:, lag:] * noise[:, :-lag]).mean() / 9
        assert found == pytest.approx(rho**lag, abs=0.01)


def test_each_row_has_its_own_deviation():
    noise = correlated(rng(), np.array([1.0, 4.0]), 50_000, 0.4)
    np.testing.assert_allclose(noise.std(axis=1), [1, 4], rtol=0.03)


def test_bad_epochs_are_few_and_far_off():
    bad = np.zeros((2000, 100))
    add_bad_epochs(rng(), bad, np.full(2000, 2.0), 0.02)
    assert (bad != 0).mean() == pytest.approx(0.02, abs=0.002)
    size = np.abs(bad[bad != 0])
    assert (size < 6).mean() < 0.005  # an entry that is met twice may be put nearly back
    assert ((size >= 6) & (size <= 16)).mean() > 0.98
    assert (bad > 0).sum() == pytest.approx((bad < 0).sum(), rel=0.1)


def test_jumps_are_half_a_wavelength_and_last():
    off = np.zeros((5000, 60))
    add_jumps(rng(), off, 0.1, 55.5)
    assert set(np.unique(off)) == {-27.75, 0.0, 27.75}
    jumped = (off != 0).any(axis=1)
    assert jumped.mean() == pytest.approx(0.1, abs=0.02)
    assert (off[:, 0] == 0).all()
    # Up once, and back at most once.
    assert set((np.diff(off[jumped], axis=1) != 0).sum(axis=1)) == {1, 2}
