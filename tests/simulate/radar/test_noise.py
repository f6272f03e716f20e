import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.simulate.radar.noise import (
    Law,
    add_bad_epochs,
    add_jumps,
    correlated,
    delays,
    filtered,
    own_movement,
    shared_noise,
    turbulence,
    unwrapping_patches,
)


def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6])
def test_correlated_noise_has_its_deviation_and_correlation_from_the_first_epoch_on(rho):
    noise = correlated(rng(), np.full(20_000, 3.0), 30, rho)
    np.testing.assert_allclose(noise.std(axis=0), 3.0, rtol=0.03)
    for lag in (1, 2):
        found = (noise[:, lag:] * noise[:, :-lag]).mean() / 9
        assert found == pytest.approx(rho**lag, abs=0.01)


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


def about_mean(noise):
    return np.sqrt(noise.var(axis=1).mean())


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0, 1.6])
def test_power_law_noise_has_its_deviation_and_its_spectrum(exponent):
    noise = filtered(rng(), np.full(4000, 3.0), 256, Law(0.0, exponent, 1e6).response(512))
    assert about_mean(noise) == pytest.approx(3.0, rel=0.03)
    # A window, because a walk's two ends differ, which a transform takes for a jump at every frequency.
    power = (np.abs(np.fft.rfft(noise * np.hanning(256))) ** 2).mean(axis=0)
    at = np.arange(4, 24)
    slope = np.polyfit(np.log(at), np.log(power[at]), 1)[0]
    assert slope == pytest.approx(-exponent, abs=0.06)


def test_with_an_exponent_of_two_the_long_memory_is_an_autoregression():
    noise = filtered(rng(), np.full(20_000, 3.0), 60, Law(0.0, 2.0, 5.0).response(120))
    for lag in (1, 4):
        found = (noise[:, lag:] * noise[:, :-lag]).mean() / (noise**2).mean()
        assert found == pytest.approx(np.exp(-lag / 5), abs=0.01)


def test_a_law_mixes_a_short_and_a_long_memory():
    law, memory = Law(0.3, 1.2, 100.0), np.repeat([0.0, 0.5], 2000)
    noise = law.draw(rng(), np.full(4000, 2.0), memory, 200)
    short, long = noise[:2000], noise[2000:]
    assert [about_mean(short), about_mean(long)] == pytest.approx([2, 2], rel=0.03)

    def after(series, lag):
        return (series[:, lag:] * series[:, :-lag]).mean() / (series**2).mean()

    assert after(short, 20) == pytest.approx(0, abs=0.01)
    assert after(long - long.mean(axis=1, keepdims=True), 20) > 0.06


@pytest.mark.parametrize(("rho", "exponent", "memory"), [(0.4, 1.0, 0.0), (0.4, 0.8, 1.0), (0.2, 1.6, 0.5)])
def test_the_variance_of_a_line_is_that_of_lines_through_noise(rho, exponent, memory):
    law, epochs = Law(rho, exponent, 40.0), 150
    noise = law.draw(rng(), np.full(6000, 3.0), np.full(6000, memory), epochs)
    change = noise @ np.linalg.pinv(np.stack([np.ones(epochs), np.linspace(0, 1, epochs)], axis=1))[1]
    assert change.var() / 9 == pytest.approx(law.line_variance(np.array([memory]), epochs)[0], rel=0.05)


def test_turbulence_has_unit_variance_and_a_power_law():
    fields = turbulence(np.random.default_rng(0), 300, 2560.0)
    assert fields.shape == (300, 64, 64)
    assert (fields**2).mean() == pytest.approx(1)
    window = np.hanning(64)
    # What the window cuts off of a slow wave would leak into all others.
    level = fields - (fields * np.outer(window, window)).sum((1, 2), keepdims=True) / window.sum() ** 2
    power = (np.abs(np.fft.fft2(level * np.outer(window, window))) ** 2).mean(axis=0)
    wave = np.hypot(np.fft.fftfreq(64)[:, None], np.fft.fftfreq(64)[None, :])
    kept = (wave > 5 / 64) & (wave < 0.4)
    assert np.polyfit(np.log(wave[kept]), np.log(power[kept]), 1)[0] == pytest.approx(-8 / 3, abs=0.25)


@pytest.mark.parametrize("kept", [0.0, 0.6])
def test_delays_are_of_their_size_alike_nearby_and_kept_from_epoch_to_epoch_as_asked(kept):
    rng = np.random.default_rng(1)
    place = rng.uniform(-480, 480, (200, 2))
    found = delays(rng, np.vstack([place, place + 1.0]), 960.0, sigma=5.0, epochs=200, rho=kept)
    assert found.shape == (400, 200)
    assert found.std() == pytest.approx(5, rel=0.2)
    assert np.abs(found[:200] - found[200:]).std() < 1
    assert np.mean(found[:, 1:] * found[:, :-1]) == pytest.approx(kept * found.var(), abs=0.15 * 25)


def test_shared_noise_is_alike_within_its_reach_and_new_at_each_epoch():
    rng = np.random.default_rng(2)
    place = rng.uniform(-400, 400, (300, 2))
    beside = [place + np.array([away, 0.0]) for away in (0.0, 30.0, 70.0)]
    found = shared_noise(rng, np.vstack(beside), 960.0, sigma=2.0, reach_m=30.0, epochs=150)
    near, reach, far = (float(np.mean(found[:300] * found[300 * k : 300 * k + 300])) for k in range(3))
    assert near == pytest.approx(4, rel=0.25)  # less between the nodes of its grid
    assert reach == pytest.approx(near / np.e, rel=0.25)
    assert abs(far) < 0.4
    assert abs(np.mean(found[:, 1:] * found[:, :-1])) < 0.2


def test_own_movement_is_of_its_size_slow_and_each_scatterer_s_own():
    found = own_movement(np.random.default_rng(3), 4000, 2.0, np.linspace(0, 1, 50))
    assert np.median(np.abs(found[:, -1])) == pytest.approx(0.67 * 2, rel=0.1)
    assert abs(np.mean(found[1:, -1] * found[:-1, -1])) < 0.6
    assert np.abs(np.diff(found, axis=1)).mean() < 0.4


@given(st.integers(0, 1000), st.integers(0, 5), st.sampled_from([55.5, 31.0]))
def test_patches_are_whole_halves_of_the_wavelength_and_stay(seed, count, wavelength):
    rng = np.random.default_rng(seed)
    place, time = rng.uniform(-480, 480, (300, 2)), np.linspace(0, 1, 40)
    off = unwrapping_patches(rng, place, 960.0, count=count, time=time, wavelength_mm=wavelength) / (wavelength / 2)
    np.testing.assert_allclose(off, np.round(off), atol=1e-9)
    assert np.abs(off).max() <= count
    assert (np.count_nonzero(np.diff(off, axis=1), axis=1) <= count).all()
