"""The air's delay: its size and reach from what neighbours share, and none where they share nothing."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from plumbline.fields.prepare.delay import estimate_delay


def air(rng, size, length, count=300, epochs=80):
    place = rng.uniform(0, 1000, (count, 2))
    lower = np.linalg.cholesky(np.exp(-cdist(place, place) / length) + 1e-9 * np.eye(count))
    return place, size * lower @ rng.standard_normal((count, epochs))


@pytest.mark.parametrize(("size", "length"), [(2.0, 100.0), (8.0, 300.0)])
@pytest.mark.parametrize("noise", [0.5, 5.0])
def test_size_and_length_are_told(size, length, noise):
    rng = np.random.default_rng(0)
    place, delay = air(rng, size, length)
    delay += noise * rng.standard_normal(delay.shape) * np.exp(rng.normal(0, 0.4, (300, 1)))
    delay[rng.random(delay.shape) < 0.1] = np.nan
    found = estimate_delay(delay, place)
    assert found.deviation_mm == pytest.approx(size, rel=0.3)
    assert found.length_m == pytest.approx(length, rel=0.6)


@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_what_a_delay_keeps_from_epoch_to_epoch_is_told(kept):
    rng = np.random.default_rng(3)
    place, fresh = air(rng, 4.0, 150.0, epochs=120)
    delay = fresh.copy()
    for epoch in range(1, 120):
        delay[:, epoch] = kept * delay[:, epoch - 1] + np.sqrt(1 - kept**2) * fresh[:, epoch]
    found = estimate_delay(delay + rng.standard_normal(delay.shape), place)
    assert found.memory == pytest.approx(kept, abs=0.12)
    assert found.deviation_mm == pytest.approx(4, rel=0.3)


def test_movement_noise_and_an_offset_of_an_epoch_are_none():
    rng = np.random.default_rng(1)
    place = rng.uniform(0, 1000, (300, 2))
    slow = 10 * np.outer(np.exp(-(((place - 500) / 150) ** 2).sum(axis=1)), np.sin(np.linspace(0, 6, 80)))
    series = slow + 3 * rng.standard_normal((300, 80)) + 9 * rng.standard_normal(80)
    series[:20] += 40 * (rng.random((20, 80)) < 0.1)
    assert estimate_delay(series, place).deviation_mm < 0.8


def test_few_points_tell_none():
    rng = np.random.default_rng(2)
    place, delay = air(rng, 8.0, 300.0, 20)
    assert estimate_delay(delay, place).deviation_mm == 0
    assert estimate_delay(np.full((40, 80), np.nan), rng.uniform(0, 9, (40, 2))).deviation_mm == 0
