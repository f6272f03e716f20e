import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare import scatterers
from plumbline.prepare.scatterers import rectangles


def bounds(sizes):
    return np.r_[0, np.cumsum(sizes, dtype=np.int64)]


@given(st.lists(st.integers(0, 60), max_size=40))
def test_every_row_stands_in_exactly_one_place_whatever_the_sizes(sizes):
    offsets = bounds(sizes)
    found, seen = [], []
    for rectangle in rectangles(offsets):
        assert rectangle.row.shape == rectangle.mask.shape
        assert rectangle.mask.shape[1] == max(sizes[b] for b in rectangle.building)
        seen += rectangle.building.tolist()
        for building, row, mask in zip(*rectangle, strict=True):
            own = range(offsets[building], offsets[building + 1])
            assert row[mask].tolist() == list(own)
            assert set(row.tolist()) <= set(own)
            found += row[mask].tolist()
    assert sorted(found) == list(range(offsets[-1]))
    assert sorted(seen) == [b for b, size in enumerate(sizes) if size]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40))
def test_little_is_padded(sizes):
    for rectangle in rectangles(bounds(sizes)):
        width = rectangle.mask.shape[1]
        shortest = rectangle.mask.sum(1).min()
        assert width <= shortest + max(1, shortest // 4)


def test_a_rectangle_of_pairs_is_bounded(monkeypatch):
    monkeypatch.setattr(scatterers, "CELLS", 1000)
    sizes = [10] * 55 + [40]
    shapes = [rectangle.mask.shape for rectangle in rectangles(bounds(sizes))]
    assert shapes == [(10, 10)] * 5 + [(5, 10), (1, 40)]
