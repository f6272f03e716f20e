"""Arrays in files without a name."""

import errno
import io
import platform

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core import on_disk
from plumbline.core.errors import NotWritable
from plumbline.core.on_disk import OnDisk, Stack, folder_of, return_freed_memory
from tests.refusals import refuses

COUNT, COLUMNS = 1500, 5
ROW = st.integers(-COUNT, COUNT - 1)
BOUND = st.none() | st.integers(-2 * COUNT, 2 * COUNT)
KEYS = st.one_of(
    ROW,
    st.builds(slice, BOUND, BOUND, st.none() | st.sampled_from([-7, -1, 1, 3])),
    st.lists(ROW, max_size=1200).map(lambda rows: np.array(rows, np.intp)),
    st.lists(ROW, min_size=6, max_size=6).map(lambda rows: np.array(rows).reshape(2, 3)),
    st.integers(0, 2**32).map(lambda seed: np.random.default_rng(seed).random(COUNT) > 0.5),
    st.just(np.random.default_rng(1).random((COUNT, COLUMNS)) > 0.5),
    st.tuples(st.just(slice(None)), st.sampled_from([2, slice(1, 4), [0, 3], np.array([True, False] * 2 + [True])])),
)


def filled(values, folder):
    stack = Stack(folder)
    for start in range(0, len(values), 400):
        stack.add(values[start : start + 400])
    return stack.array()


@pytest.fixture(scope="module")
def values():
    return np.random.default_rng(0).normal(size=(COUNT, COLUMNS)).astype(np.float32)


@pytest.fixture(scope="module")
def stored(values, tmp_path_factory):
    return filled(values, tmp_path_factory.mktemp("stored"))


@given(KEYS)
def test_a_selection_is_that_of_the_same_array_in_memory(values, stored, key):
    found = stored[key]
    np.testing.assert_array_equal(found, values[key])
    assert found.shape == values[key].shape
    assert found.dtype == values.dtype
    assert folder_of(found) is None


def test_its_file_has_no_name(stored):
    assert list(folder_of(stored).iterdir()) == []
    assert folder_of(np.zeros(3)) is None


def test_many_rows_are_on_disk_again(values, stored, monkeypatch):
    monkeypatch.setattr(on_disk, "LARGE_BYTES", 4 * COLUMNS * 1000)
    for key, many in ((np.arange(1000), False), (np.arange(1001), True), ((slice(None), slice(1, 3)), False)):
        assert (folder_of(stored[key]) == folder_of(stored)) is many
    again = stored[np.arange(COUNT) % 4 > 0]
    np.testing.assert_array_equal(again[:, [1, 2]], values[np.arange(COUNT) % 4 > 0][:, [1, 2]])


def test_without_a_folder_and_without_rows_it_is_in_memory(values, tmp_path):
    assert not isinstance(filled(values, None), OnDisk)
    empty = Stack(tmp_path)
    empty.add(values[:0])
    assert empty.array().shape == (0, COLUMNS)


def test_a_full_disk_is_told(values, tmp_path, monkeypatch):
    class Full(io.BytesIO):
        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(on_disk.tempfile, "TemporaryFile", lambda dir: Full())
    with refuses("disk.full", tmp_path, "No space left", error=NotWritable):
        filled(values, tmp_path)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="elsewhere memory stays with the process")
def test_freed_memory_goes_back_to_the_system():
    process = psutil.Process()
    blocks = [np.ones(8_000) for _ in range(2_000)]  # 64 kB each: in the heap, not in pages of their own
    last = blocks.pop()  # keeps the heap from shrinking by itself
    blocks.clear()
    held = process.memory_info().rss
    return_freed_memory()
    assert held - process.memory_info().rss > 50e6
    assert last.sum() == 8_000
