import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.params.plugins import PADDING
from plumbline.prepare.features.sequences import fill

WHERE = pytest.mark.parametrize("strategy", list(PADDING))
A, B = [1.0, 10.0], [5.0, -20.0]
CLOSED = {"mask": [[0, 0]] * 3, "mean": [[3, -5]] * 3, "median": [[3, -5]] * 3, "last": [B] * 3, "replicate": [A, B, A]}
lengths = st.lists(st.integers(1, 12), min_size=1, max_size=6)


def drawn(lengths, width, seed=0):
    """Values (B, L, 3) with numbers that must not be read in the padding, and the mask."""
    rng = np.random.default_rng(seed)
    mask = np.arange(width) < np.array(lengths)[:, None]
    return np.where(mask[..., None], rng.normal(size=(*mask.shape, 3)), 777).astype(np.float32), mask


@pytest.mark.parametrize("strategy", CLOSED)
def test_two_scatterers_padded_to_five(strategy):
    values = np.array([[A, B, [777, 777], [777, 777], [777, 777]]], np.float32)
    mask = np.array([[True, True, False, False, False]])
    wanted = np.array([[A, B, *CLOSED[strategy]]])
    found = fill(values, mask, strategy)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted)


def test_mean_and_median_differ_where_one_value_is_far_out():
    values, mask = np.array([[[1.0], [2], [30], [0], [0]]], np.float32), np.array([[True, True, True, False, False]])
    np.testing.assert_allclose(fill(values, mask, "mean")[0, 3:, 0], 11)
    np.testing.assert_allclose(fill(values, mask, "median")[0, 3:, 0], 2)


@WHERE
@given(lengths=lengths, extra=st.integers(0, 9), seed=st.integers(0, 99))
def test_a_building_is_padded_from_its_own_values_alone(strategy, lengths, extra, seed):
    values, mask = drawn(lengths, max(lengths) + extra, seed)
    found = fill(values, mask, strategy)
    np.testing.assert_array_equal(found[mask], values[mask])
    assert not (found == 777).any()
    for row, length in enumerate(lengths):
        np.testing.assert_array_equal(fill(values[row : row + 1], mask[row : row + 1], strategy)[0], found[row])
        own, padding = values[row, :length], found[row, length:]
        if strategy != "mask" and len(padding):
            assert (padding >= own.min(0) - 1e-6).all()
            assert (padding <= own.max(0) + 1e-6).all()
    values[~mask] = -3e38
    np.testing.assert_array_equal(fill(values, mask, strategy), found)


@WHERE
def test_a_row_without_scatterers_and_an_empty_batch(strategy):
    values, mask = drawn([0, 3], 4)
    assert not fill(values, mask, strategy)[0].any()
    assert fill(values[:0], mask[:0], strategy).shape == (0, 4, 3)
    assert fill(values[:, :0], mask[:, :0], strategy).shape == (2, 0, 3)
