"""Shards are one set of buildings, whatever their number; and their size is not needed in memory."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.errors import InputError
from plumbline.prepare.features.sequences import concatenate
from plumbline.prepare.features.shards import load_shards, save_shards
from tests.prepare.features.test_sequences import make, same

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
    with pytest.raises(InputError, match="no shard in it"):
        load_shards(tmp_path)
    save_shards([make([2] * 9)], tmp_path, 3)
    (tmp_path / "shard-00001").rename(tmp_path / "aside")
    with pytest.raises(InputError, match="a shard is missing between shard-00000 and shard-00002"):
        load_shards(tmp_path)


READER = """
import sys, pathlib
import numpy as np
from plumbline.prepare.features.shards import load_shards
from plumbline.train.data.batches import loader
def memory():
    rows = (line.split() for line in open("/proc/self/smaps_rollup"))
    return {row[0]: int(row[1]) for row in rows if len(row) == 3}
shards = load_shards(pathlib.Path(sys.argv[1]))
batches = iter(loader(shards, 256, 0))
next(batches)
before = memory()
for batch in batches:
    pass
after = memory()
print(after["Anonymous:"] - before["Anonymous:"], after["Rss:"], after["Pss:"], flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_epoch_does_not_need_the_size_of_the_data_and_processes_share_it(tmp_path):
    part = make([12] * 20_000)
    save_shards([part] * 10, tmp_path, 32_768)
    size_kb = sum(path.stat().st_size for path in tmp_path.rglob("*.npy")) // 1024
    assert size_kb > 200_000

    def reader() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", READER, str(tmp_path)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def told(process: subprocess.Popen[str]) -> list[int]:
        assert process.stdout
        return [int(word) for word in process.stdout.readline().split()]

    first = reader()
    grown, rss, _ = told(first)
    assert grown < size_kb / 20  # what an epoch takes of its own, beside the system's cache of the files
    assert rss > size_kb / 2  # so the files were really mapped and read
    second = reader()
    _, rss, shared = told(second)
    first.communicate("\n")
    second.communicate("\n")
    assert rss - shared > size_kb / 3  # of the second's share the first bears half
