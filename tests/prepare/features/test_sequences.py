from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE
from plumbline.prepare.features.sequences import LABELS, UNDEFINED, Sequences, concatenate
from tests.refusals import refuses

ARRAYS = [field.name for field in fields(Sequences)]


def make(lengths, seed=0, city="a") -> Sequences:
    rng = np.random.default_rng(seed)
    count, rows = len(lengths), sum(lengths)
    return Sequences(
        building_id=np.array([f"{city}{i}" for i in range(count)], dtype="<U8"),
        city=np.full(count, city),
        offsets=np.r_[0, np.cumsum(lengths)].astype(np.int64),
        distance=rng.normal(size=(rows, len(DISTANCE))).astype(np.float32),
        slope=rng.normal(size=(rows, len(SLOPE))).astype(np.float32),
        geometry=rng.normal(size=(count, len(GEOMETRY))).astype(np.float32),
        severity=rng.uniform(0, 5, count).astype(np.float32),
        quadrant=rng.integers(UNDEFINED, 4, count),
        accepted=rng.random((count, 4)) < 0.4,
        mechanism=rng.integers(-1, 6, count).astype(np.int8),
        difficulty=rng.integers(-1, 3, count).astype(np.int8),
    )


def same(one: Sequences, other: Sequences) -> None:
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


lengths = st.lists(st.integers(1, 9), min_size=1, max_size=8)


@given(lengths, st.data())
def test_take_keeps_each_building_whole_in_the_order_asked_for(lengths, data):
    sequences = make(lengths)
    index = np.array(data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=12)), dtype=np.intp)
    taken = sequences.take(index)
    assert len(taken) == len(index)
    for new, old in enumerate(index):
        here, there = (slice(s.offsets[i], s.offsets[i + 1]) for s, i in ((taken, new), (sequences, old)))
        np.testing.assert_array_equal(taken.distance[here], sequences.distance[there])
        np.testing.assert_array_equal(taken.slope[here], sequences.slope[there])
        assert taken.building_id[new] == sequences.building_id[old]
        for name in LABELS:
            np.testing.assert_array_equal(getattr(taken, name)[new], getattr(sequences, name)[old])


@given(lengths, st.integers(0, 5), st.data())
def test_pad_lays_out_rows_and_zeros(lengths, more, data):
    sequences = make(lengths)
    index = np.array(data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=12)))
    longest = max(lengths[i] for i in index)
    padded = sequences.pad(index, longest + more) if more else sequences.pad(index)
    assert padded["mask"].shape == (len(index), longest + more)
    assert padded["mask"].dtype == bool
    assert padded["distance"].dtype == padded["slope"].dtype == padded["geometry"].dtype == np.float32
    for row, building in enumerate(index):
        size = lengths[building]
        there = slice(sequences.offsets[building], sequences.offsets[building + 1])
        assert padded["mask"][row].tolist() == [True] * size + [False] * (longest + more - size)
        for name in ("distance", "slope"):
            np.testing.assert_array_equal(padded[name][row, :size], getattr(sequences, name)[there])
            assert not padded[name][row, size:].any()
        np.testing.assert_array_equal(padded["geometry"][row], sequences.geometry[building])


def test_pad_cuts_no_building():
    sequences = make([3, 7])
    assert sequences.pad(np.array([0]), 3)["mask"].all()
    with pytest.raises(ValueError, match="length: 6 found, but a building has 7 scatterers"):
        sequences.pad(np.array([0, 1]), 6)


@given(st.lists(lengths, min_size=1, max_size=3))
def test_concatenate_and_take_are_inverse(parts):
    made = [make(part, seed, f"city{seed}") for seed, part in enumerate(parts)]
    merged = concatenate(made)
    start = 0
    for part in made:
        same(merged.take(np.arange(start, start + len(part))), part)
        start += len(part)
    assert len(merged) == start


@given(lengths)
def test_saved_and_loaded_is_the_same(tmp_path_factory, lengths):
    folder = tmp_path_factory.mktemp("saved")
    make(lengths).save(folder)
    same(Sequences.load(folder), make(lengths))


@pytest.mark.parametrize("damage", ["truncated", "missing", "header", "empty"])
def test_a_damaged_file_is_named(tmp_path, damage):
    make([4, 5, 6] * 20).save(tmp_path)
    path = tmp_path / "slope.npy"
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"truncated": content[:-7], "header": content[:20], "empty": b""}[damage])
    with refuses("shards.unreadable", path, "`plumbline prepare`"):
        Sequences.load(tmp_path)


@pytest.mark.parametrize("name", [name for name in ARRAYS if name != "city"])
def test_files_of_two_runs_are_refused(tmp_path, name):
    make([4, 5]).save(tmp_path)
    other = tmp_path / "other"
    make([4, 5, 6]).save(other)
    (other / f"{name}.npy").rename(tmp_path / f"{name}.npy")
    with refuses("shards.unequal_files", tmp_path):
        Sequences.load(tmp_path)
