"""What stands between the ground and a product: its sizes, its spectrum, its steps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.fields.simulate.scene import LEVELS, delays, draw_degradation, turbulence, unwrapping_patches
from plumbline.params.fields import DOMAINS

RANGES = {"noise_mm": (1.5, 5.0), "gross": (0.004, 0.03), "density": (3000, 400), "atmosphere_mm": (0.1, 1.2)}
OWN = {
    "noise": {"noise_mm": (6, 16), "gross": (0.05, 0.2)},
    "atmosphere": {"atmosphere_mm": (2, 10)},
    "sparse": {"density": (250, 40)},
}


@given(st.integers(0, 1000), st.sampled_from(DOMAINS), st.sampled_from(LEVELS))
def test_a_level_takes_its_third_of_each_range(seed, domain, level):
    found = draw_degradation(np.random.default_rng(seed), domain, level)
    third = LEVELS.index(level)
    for name, (easy, hard) in {**RANGES, **OWN.get(domain, {})}.items():
        ends = sorted(easy * (hard / easy) ** (part / 3) for part in (third, third + 1))
        assert ends[0] <= getattr(found, name) * (1 + 1e-9)
        assert getattr(found, name) <= ends[1] * (1 + 1e-9)
    if domain == "unwrapping":
        assert 1 + third <= found.patches <= 2 + third
    else:
        assert found.patches in (0, 1)


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


def test_delays_are_of_their_size_alike_nearby_and_new_at_each_epoch():
    rng = np.random.default_rng(1)
    place = rng.uniform(-480, 480, (200, 2))
    found = delays(rng, np.vstack([place, place + 1.0]), 960.0, 5.0, 200)
    assert found.shape == (400, 200)
    assert found.std() == pytest.approx(5, rel=0.2)
    assert np.abs(found[:200] - found[200:]).std() < 1
    assert abs(np.mean(found[:, 1:] * found[:, :-1])) < 0.15 * 25


@given(st.integers(0, 1000), st.integers(0, 5), st.sampled_from([55.5, 31.0]))
def test_patches_are_whole_halves_of_the_wavelength_and_stay(seed, count, wavelength):
    rng = np.random.default_rng(seed)
    place, time = rng.uniform(-480, 480, (300, 2)), np.linspace(0, 1, 40)
    off = unwrapping_patches(rng, place, 960.0, count, time, wavelength) / (wavelength / 2)
    np.testing.assert_allclose(off, np.round(off), atol=1e-9)
    assert np.abs(off).max() <= count
    assert (np.count_nonzero(np.diff(off, axis=1), axis=1) <= count).all()
