import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.features.sequences import concatenate
from plumbline.prepare.features.shards import load_shards, save_shards
from tests.prepare.features.test_sequences import make, same
from tests.refusals import refuses

parts = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=8), min_size=1, max_size=4)
NAMES = ("length", "severity", "quadrant", "accepted", "mechanism", "difficulty", "building_id", "city", "geometry")


@given(parts=parts, size=st.integers(1, 7), data=st.data())
def test_shards_of_any_size_are_the_same_buildings(tmp_path_factory, parts, size, data):
    made = [make(lengths, seed, f"city{seed}") for seed, lengths in enumerate(parts)]
    whole = concatenate(made)
    folder = tmp_path_factory.mktemp("split")
    assert save_shards(iter(made), folder, size) == len(whole)
    shards = load_shards(folder)
    assert [len(part) for part in shards.parts[:-1]] == [size] * (len(shards.parts) - 1)
    assert len(shards) == len(whole)
    assert all(isinstance(part.distance, np.memmap) for part in shards.parts)  # so memory does not grow with the data
    for name in NAMES:
        np.testing.assert_array_equal(getattr(shards, name), getattr(whole, name))
    index = np.array(data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=12)), np.intp)
    same(shards.take(index), whole.take(index))
    strategy = data.draw(st.sampled_from(["mask", "mean", "last"]))
    for length in (None, 11):
        one, other = shards.pad(index, length, strategy), whole.pad(index, length, strategy)
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
            assert one[name].dtype == other[name].dtype


def test_missing_shards_are_refused(tmp_path):
    with refuses("shards.none", tmp_path):
        load_shards(tmp_path)
    save_shards([make([2] * 9)], tmp_path, 3)
    (tmp_path / "shard-00001").rename(tmp_path / "aside")
    with refuses("shards.missing", "shard-00000", "shard-00002"):
        load_shards(tmp_path)
