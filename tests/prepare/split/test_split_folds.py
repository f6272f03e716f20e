import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.params import Prepare
from plumbline.prepare.split import fold_blocks, split
from tests.prepare.split.test_split import BLOCK_M, arranged, blocks_of, layouts, town
from tests.refusals import refuses


@given(layouts, st.integers(2, 7), st.integers(0, 99))
def test_folds_hold_whole_blocks_and_about_as_many_buildings(layout, folds, seed):
    centre, city = arranged(layout)
    blocks = blocks_of(centre, city)
    if len(set(blocks)) < folds:
        with refuses("folds.too_many", f"prepare.folds: {folds} ", "prepare.block_m"):
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


@pytest.mark.parametrize(("folds", "fold"), [(1, 0), (0, 1), (5, 5), (2, 7)])
def test_folds_that_cannot_be_are_refused(folds, fold):
    with pytest.raises(ValueError, match=f"folds: {folds} with fold: {fold} found"):
        Prepare(folds=folds, fold=fold)
