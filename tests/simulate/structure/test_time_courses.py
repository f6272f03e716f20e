import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plumbline.simulate.structure.motion import (
    ACCELERATING,
    LINEAR,
    ONSET,
    PIECEWISE,
    SETTLING,
    Histories,
    draw_any_beginning,
    passages,
)


@given(st.integers(0, 10_000))
def test_every_history_goes_from_zero_to_one_and_never_back(seed):
    rng = np.random.default_rng(seed)
    for histories in (draw_any_beginning(rng, 60), passages(rng, rng.uniform(0.05, 0.6, 20))):
        share = histories.at(np.linspace(0, 1, 60))
        np.testing.assert_allclose(share[:, 0], 0, atol=1e-12)
        np.testing.assert_allclose(share[:, -1], 1)
        assert (np.diff(share, axis=1) >= -1e-12).all()


def test_closed_forms():
    histories = Histories(
        np.array([LINEAR, SETTLING, ONSET, ACCELERATING, PIECEWISE]),
        np.array([1.0, 0.5, 0.4, 2.0, 0.2]),
        np.array([3.0, 3.0, 0.8, 3.0, 0.7]),
        np.array([[0.0, 0.0]] * 4 + [[0.1, 0.5]]),
    )
    expected = [0.6, (1 - np.exp(-1.2)) / (1 - np.exp(-2)), 0.5, 0.36, 0.1 + 0.4 * 0.8]
    np.testing.assert_allclose(histories.at(np.array([0.6]))[:, 0], expected)


def test_damage_also_begins_at_the_end_and_at_once():
    """Of the buildings that fail; what has not reached a twentieth has not begun."""
    drawn = draw_any_beginning(np.random.default_rng(1), 5000)
    time = np.linspace(0, 1, 501)
    share = drawn.at(time)
    begins = (share < 0.05).mean(axis=1)
    assert 0.07 < (begins > 0.8).mean() < 0.15
    assert begins.max() < 0.99
    assert 0.04 < (np.diff(share, axis=1).max(axis=1) > 0.5).mean() < 0.1
