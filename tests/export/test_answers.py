"""Parts of a batch: every building once, little padding, and work for each thread."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from plumbline.export.answers import (
    MIN_CELLS,
    PARTS_A_THREAD,
    batches,
    cut_to_longest,
    needed_places,
    split_by_length,
)
from plumbline.export.interface import MASK

MASKS = st.tuples(st.integers(1, 40), st.integers(1, 30)).flatmap(lambda shape: arrays(bool, shape))


def mask_of(lengths, width=None):
    return np.arange(width or max(lengths)) < np.asarray(lengths)[:, None]


@given(MASKS, st.integers(1, 5))
def test_every_building_is_in_one_part_and_the_longest_of_a_part_comes_first(mask, threads):
    mask[:, 0] = True
    found = split_by_length(mask, threads)
    assert sorted(np.concatenate(found)) == list(range(len(mask)))
    for part in found:
        assert needed_places(mask)[part[0]] == needed_places(mask)[part].max()


@given(MASKS)
def test_nothing_that_is_real_is_cut_off(mask):
    """Places between scatterers may be empty too: a mask need not be a beginning."""
    mask[:, 0] = True
    values = np.arange(mask.size, dtype=float).reshape(*mask.shape, 1)
    inputs = {"distance": values, "slope": values, "geometry": values[:, 0], MASK: mask}
    for part in split_by_length(mask, 3):
        own = cut_to_longest(inputs, part)
        assert own[MASK].sum() == mask[part].sum()
        assert own["distance"].shape[:2] == own["slope"].shape[:2] == own[MASK].shape
        np.testing.assert_array_equal(own["distance"][own[MASK]], values[part][mask[part]])
        np.testing.assert_array_equal(own["geometry"], values[part, 0])
        assert own[MASK][:, -1].any()  # and no place is left that nobody needs


def test_one_thread_or_little_work_is_not_divided():
    assert len(split_by_length(mask_of([20] * 500), 1)) == 1
    assert len(split_by_length(mask_of([20] * (MIN_CELLS // 20)), 8)) == 1


def test_each_thread_has_work_and_padding_goes():
    lengths = [*[12] * 200, *[45] * 40, *[120] * 16]
    found = split_by_length(mask_of(lengths), 2)
    cells = [len(part) * np.asarray(lengths)[part].max() for part in found]
    assert 4 <= len(found) <= 2 * PARTS_A_THREAD + 2
    assert max(cells) < sum(cells) / 2
    assert sum(cells) < 1.2 * sum(lengths) < 0.25 * len(lengths) * 120


def test_an_empty_batch_has_one_empty_part():
    (part,) = split_by_length(np.ones((0, 3), bool), 4)
    assert not len(part)


LENGTHS = st.lists(st.integers(1, 60), max_size=40).map(np.array)


@given(LENGTHS, st.integers(1, 300), st.sampled_from(["shrink", "fill"]), st.none() | st.integers(1, 9))
def test_batches_have_all_buildings_once_and_room_for_each(lengths, cells, rule, most):
    found = list(batches(lengths, cells, rule, most))
    assert sorted(np.concatenate([np.zeros(0, int), *found])) == list(range(len(lengths)))
    for one in found:
        assert lengths[one[-1]] == lengths[one].max()
        assert len(one) == 1 or len(one) * lengths[one].max() <= cells
        assert len(one) <= (most or len(lengths))


def test_one_rule_fills_a_batch_and_the_other_may_not():
    lengths = np.array([1, 1, 5, 5, 5, 5])
    assert [len(one) for one in batches(lengths, 20, "fill")] == [4, 2]
    assert [len(one) for one in batches(lengths, 20, "shrink")] == [4, 2]
    lengths = np.array([1, 1, 2, 3, 10, 10])
    assert [len(one) for one in batches(lengths, 12, "fill")] == [4, 1, 1]
    assert [len(one) for one in batches(lengths, 12, "shrink")] == [1] * 6
