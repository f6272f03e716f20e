import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.errors import InputError
from plumbline.params import Prepare
from plumbline.prepare.split import fold_blocks, split
from tests.prepare.split.test_split import BLOCK_M, arranged, blocks_of, layouts, town


@given(layouts, st.integers(2, 7), st.integers(0, 99))
def test_folds_hold_whole_blocks_and_about_as_many_buildings(layout, folds, seed):
    centre, city = arranged(layout)
    blocks = blocks_of(centre, city)
    if len(set(blocks)) < folds:
        with pytest.raises(InputError, match=rf"prepare\.folds: {folds} found, but the buildings stand in"):
            fold_blocks(centre, city, folds, BLOCK_M, seed)
        return
    fold = fold_blocks(centre, city, folds, BLOCK_M, seed)
    found = {}
    for block, number in zip(blocks, fold.tolist(), strict=True):
        found.setdefault(block, set()).add(number)
    assert all(len(numbers) == 1 for numbers in found.values())
    held = np.bincount(fold, minlength=folds)
    assert len(held) == folds
    assert held.min() > 0
    assert np.ptp(held) <= max(blocks.count(block) for block in set(blocks))


@given(st.integers(0, 1000), st.integers(2, 8))
def test_the_test_splits_of_all_folds_hold_every_building_once(seed, folds):
    centre, city = town(seed, count=600)
    times = np.zeros(len(city), dtype=int)
    for fold in range(folds):
        name = split(centre, city, Prepare(folds=folds, fold=fold, block_m=150.0, seed=seed))
        times += name == "test"
        rest = name[name != "test"]
        assert set(rest) == {"train", "tune", "calibrate"}
        assert (rest == "train").mean() == pytest.approx(0.7 / 0.9, abs=0.1)
    np.testing.assert_array_equal(times, 1)


def test_every_city_is_in_every_fold():
    centre, city = town(3)
    fold = fold_blocks(centre, city, 5, 200.0, 0)
    for name in ("a", "b"):
        assert np.bincount(fold[city == name], minlength=5).min() > 100


def test_the_seed_alone_decides():
    centre, city = town(4)
    first, again, other = (fold_blocks(centre, city, 5, 200.0, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_without_folds_the_shares_decide():
    centre, city = town(5)
    name = split(centre, city, Prepare(block_m=150.0))
    assert (name == "train").mean() == pytest.approx(0.7, abs=0.05)


@pytest.mark.parametrize(("folds", "fold"), [(1, 0), (0, 1), (5, 5), (2, 7)])
def test_folds_that_cannot_be_are_refused(folds, fold):
    with pytest.raises(ValueError, match=f"folds: {folds} with fold: {fold} found"):
        Prepare(folds=folds, fold=fold)
