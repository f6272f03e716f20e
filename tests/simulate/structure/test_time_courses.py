import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plumbline.simulate.structure.motion import (
    ACCELERATING,
    LINEAR,
    ONSET,
    SETTLING,
    Histories,
    draw_histories,
    passages,
)


@given(st.integers(0, 10_000))
def test_every_history_goes_from_zero_to_one_and_never_back(seed):
    rng = np.random.default_rng(seed)
    for histories in (draw_histories(rng, 20), passages(rng, rng.uniform(0.05, 0.6, 20))):
        share = histories.at(np.linspace(0, 1, 60))
        np.testing.assert_allclose(share[:, 0], 0, atol=1e-12)
        np.testing.assert_allclose(share[:, -1], 1)
        assert (np.diff(share, axis=1) >= -1e-12).all()


def test_closed_forms():
    histories = Histories(
        np.array([LINEAR, SETTLING, ONSET, ACCELERATING]),
        np.array([1.0, 0.5, 0.4, 2.0]),
        np.array([3.0, 3.0, 0.8, 3.0]),
    )
    expected = [0.6, (1 - np.exp(-1.2)) / (1 - np.exp(-2)), 0.5, 0.36]
    np.testing.assert_allclose(histories.at(np.array([0.6]))[:, 0], expected)


def test_all_families_are_drawn():
    assert set(draw_histories(np.random.default_rng(0), 200).family) == {LINEAR, SETTLING, ONSET, ACCELERATING}
