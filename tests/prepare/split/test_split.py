import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.errors import InputError
from plumbline.params import Prepare
from plumbline.prepare.split import split, split_blocks
from tests.refusals import refuses

SHARES = {"train": 0.7, "tune": 0.1, "calibrate": 0.1, "test": 0.1}
BLOCK_M = 100.0
# Places on block edges, on both sides of zero, and just beside an edge; names that sort, or look, alike.
places = st.one_of(
    st.integers(-6, 6).map(lambda number: number * BLOCK_M),
    st.integers(-600, 600).map(float),
    st.sampled_from([-1e-9, 1e-9, BLOCK_M - 1e-9, -BLOCK_M + 1e-9]),
)
names = st.sampled_from(["a", "a/1", "aa", "b", "1"])
layouts = st.lists(st.tuples(places, places, names, st.integers(1, 3)), min_size=8, max_size=60)


def arranged(layout):
    """Centres and cities of a drawn layout; the last number repeats a building on the same spot."""
    rows = [row[:3] for row in layout for _ in range(row[3])]
    return np.array([row[:2] for row in rows]), np.array([row[2] for row in rows])


def blocks_of(centre, city):
    """(city, column, row) of the block of each building."""
    return [(c, float(x // BLOCK_M), float(y // BLOCK_M)) for (x, y), c in zip(centre, city, strict=True)]


def slow_split(centre, city, shares, block_m, seed):
    """The rule of `split_blocks` as it reads, block by block over all buildings."""
    names = list(shares)
    wanted = np.array(list(shares.values())) / sum(shares.values())
    blocks = np.array([f"{int(x // block_m)}/{int(y // block_m)}" for x, y in centre])
    generator, given, result = np.random.default_rng(seed), np.zeros(len(names)), [""] * len(city)
    for one in sorted(set(city)):
        here = sorted(set(blocks[city == one]))
        for number in generator.permutation(len(here)):
            rows = np.flatnonzero((city == one) & (blocks == here[number]))
            choice = int(np.argmin((given + len(rows) / 2) / wanted))
            given[choice] += len(rows)
            for row in rows:
                result[row] = names[choice]
    return np.array(result), given


def town(seed, count=2000, extent=2000.0, cities=("a", "b")):
    rng = np.random.default_rng(seed)
    return rng.uniform(-extent / 2, extent / 2, (count, 2)), rng.choice(np.array(cities), count)


@given(st.integers(0, 1000))
def test_shares_are_met_within_a_block(seed):
    centre, city = town(seed)
    split = split_blocks(centre, city, {name: 5 * share for name, share in SHARES.items()}, 150.0, seed)
    largest = np.unique(np.c_[np.floor(centre / 150.0), city == "a"], axis=0, return_counts=True)[1].max()
    for name, share in SHARES.items():
        assert abs((split == name).sum() - share * len(city)) <= 2 * largest


@given(layouts, st.integers(0, 99))
def test_any_layout_is_split_by_the_rule(layout, seed):
    centre, city = arranged(layout)
    wanted, given = slow_split(centre, city, SHARES, BLOCK_M, seed)
    if not given.all():
        with refuses("split.empty", "prepare.block_m"):
            split_blocks(centre, city, SHARES, BLOCK_M, seed)
    else:
        np.testing.assert_array_equal(split_blocks(centre, city, SHARES, BLOCK_M, seed), wanted)


@given(layouts, st.integers(0, 99), st.sampled_from([0, 2, 3, 5]), st.data())
def test_no_block_of_a_city_crosses_in_any_layout(layout, seed, folds, data):
    centre, city = arranged(layout)
    fold = data.draw(st.integers(0, max(folds - 1, 0)))
    try:
        name = split(centre, city, Prepare(block_m=BLOCK_M, seed=seed, folds=folds, fold=fold))
    except InputError:
        return  # too few blocks: refused, never split in two
    sides = {}
    for block, one in zip(blocks_of(centre, city), name, strict=True):
        sides.setdefault(block, set()).add(one)
    assert all(len(found) == 1 for found in sides.values())
    assert set(name) == set(SHARES)


def test_a_building_is_not_cut_to_fewer_points_than_it_needs():
    assert Prepare(min_points=20, max_points=20)
    with pytest.raises(ValueError, match="max_points: 8 found, which must not be below min_points: 20"):
        Prepare(min_points=20, max_points=8)


def test_a_split_needs_a_share_for_every_name():
    with pytest.raises(ValueError, match="no share found for calibrate and tune"):
        Prepare(split={"train": 0.5, "test": 0.5})
