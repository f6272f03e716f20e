"""What stands between the ground and a product: its sizes, its spectrum, its steps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.fields.simulate.scene import (
    LEVELS,
    delays,
    draw_degradation,
    own_movement,
    shared_noise,
    turbulence,
    unwrapping_patches,
)
from plumbline.params.fields import DOMAINS

RANGES = {
    "noise_mm": (1.5, 5.0),
    "gross": (0.004, 0.03),
    "density": (3000, 400),
    "atmosphere_mm": (0.1, 1.2),
    "own_mm": (0.15, 4.0),
    "shared_mm": (0.2, 3.0),
}
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


@pytest.mark.parametrize("kept", [0.0, 0.6])
def test_delays_are_of_their_size_alike_nearby_and_kept_from_epoch_to_epoch_as_asked(kept):
    rng = np.random.default_rng(1)
    place = rng.uniform(-480, 480, (200, 2))
    found = delays(rng, np.vstack([place, place + 1.0]), 960.0, 5.0, 200, kept)
    assert found.shape == (400, 200)
    assert found.std() == pytest.approx(5, rel=0.2)
    assert np.abs(found[:200] - found[200:]).std() < 1
    assert np.mean(found[:, 1:] * found[:, :-1]) == pytest.approx(kept * found.var(), abs=0.15 * 25)


def test_shared_noise_is_alike_within_its_reach_and_new_at_each_epoch():
    rng = np.random.default_rng(2)
    place = rng.uniform(-400, 400, (300, 2))
    beside = [place + np.array([away, 0.0]) for away in (0.0, 30.0, 70.0)]
    found = shared_noise(rng, np.vstack(beside), 960.0, 2.0, 30.0, 150)
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
    off = unwrapping_patches(rng, place, 960.0, count, time, wavelength) / (wavelength / 2)
    np.testing.assert_allclose(off, np.round(off), atol=1e-9)
    assert np.abs(off).max() <= count
    assert (np.count_nonzero(np.diff(off, axis=1), axis=1) <= count).all()
