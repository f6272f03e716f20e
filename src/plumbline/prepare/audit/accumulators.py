"""Compute moments and samples of columns in one pass, independent of the order of rows, and hashes of buildings.

A sample has a fixed size. Each row has a pseudo-random rank made from what it is (its building's name), and the rows
with the lowest ranks are kept ("bottom-k", Cohen and Kaplan 2007, PODC). So the same buildings give the same sample,
however they are sharded or sorted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float64]


class Moments:
    """Running moments of C columns; values that are not finite are counted and left out.

    Parts are merged by the formulas of Chan, Golub and LeVeque (1983), The American Statistician 37(3), for the second
    order and of Pébay (2008), Sandia report SAND2008-6212, for the third.
    """

    def __init__(self, columns: int) -> None:
        self.rows = 0
        self.count: NDArray[np.int64] = np.zeros(columns, np.int64)
        """(C,) finite values."""
        self.mean: Row = np.zeros(columns)
        self.low: Row = np.full(columns, np.inf)
        self.high: Row = np.full(columns, -np.inf)
        self.first_bad: tuple[int, int, float] | None = None
        """Row, column and value of the first one that is not finite."""
        self._second: Row = np.zeros(columns)
        self._third: Row = np.zeros(columns)

    def add(self, values: NDArray[Any]) -> None:
        """Take in the next rows (N, C)."""
        wide = np.asarray(values, np.float64)
        finite = np.isfinite(wide)
        whole = bool(finite.all())
        if not whole and self.first_bad is None:
            row, column = np.argwhere(~finite)[0]
            self.first_bad = (self.rows + int(row), int(column), float(wide[row, column]))
        self.rows += len(wide)
        count = finite.sum(0)
        some = np.maximum(count, 1)
        kept = wide if whole else np.where(finite, wide, 0.0)
        mean = kept.sum(0) / some
        off = kept - mean
        if not whole:
            off[~finite] = 0.0
        square = off * off
        self._merge(count, mean, square.sum(0), np.einsum("ij,ij->j", square, off))
        self.low = np.minimum(self.low, np.where(finite, wide, np.inf).min(0, initial=np.inf))
        self.high = np.maximum(self.high, np.where(finite, wide, -np.inf).max(0, initial=-np.inf))

    def _merge(self, count: NDArray[np.int64], mean: Row, second: Row, third: Row) -> None:
        a, b = self.count.astype(float), count.astype(float)
        n = np.maximum(a + b, 1)
        delta = np.where(count > 0, mean - self.mean, 0.0)
        self._third += third + delta**3 * a * b * (a - b) / n**2 + 3 * delta * (a * second - b * self._second) / n
        self._second += second + delta**2 * a * b / n
        self.mean = self.mean + delta * b / n
        self.count = self.count + count

    @property
    def bad(self) -> NDArray[np.int64]:
        """(C,) values that are not finite."""
        return self.rows - self.count

    @property
    def sd(self) -> Row:
        """(C,) standard deviation, of the population."""
        return np.asarray(np.sqrt(np.maximum(self._second, 0) / np.maximum(self.count, 1)), np.float64)

    @property
    def skew(self) -> Row:
        """(C,) third standardised moment, of the population; 0 where a column does not vary."""
        n = np.maximum(self.count, 1)
        # Below rounding, what is left of a constant column's spread has no shape.
        varies = self.sd > 1e-12 * np.maximum(np.abs(self.mean), 1e-300)
        variance = np.where(varies, self._second / n, 1.0)
        return np.where(varies, self._third / n / variance**1.5, 0.0)


Hash = NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(value: Hash) -> Hash:
    """Apply SplitMix64's finaliser (Steele, Lea and Flood 2014, OOPSLA): a bijection that spreads every bit."""
    z = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)), np.uint64)


def _combine(words: NDArray[np.uint32], salt: int) -> Hash:
    """Return the hash (B,) of rows of words (B, W). Words of 0 add nothing: text in a wider array hashes alike."""
    total = np.zeros(len(words), np.uint64)
    place = mix(_GOLDEN * np.arange(1 + salt, 1 + salt + words.shape[1], dtype=np.uint64))
    for j in range(words.shape[1]):
        total += mix(words[:, j].astype(np.uint64) + place[j]) - mix(place[j : j + 1])
    return mix(total + np.uint64(salt))


def hash_names(city: NDArray[np.str_], building_id: NDArray[np.str_]) -> Hash:
    """Return the hash (B,) of each building's city and identifier."""
    parts = []
    for salt, text in ((1 << 40, city), (1 << 41, building_id)):
        array = np.ascontiguousarray(text, dtype=np.str_)
        width = array.dtype.itemsize // 4
        parts.append(_combine(array.view(np.uint32).reshape(len(array), width), salt))
    return mix(parts[0] + _GOLDEN * parts[1])


def hash_values(values: NDArray[Any]) -> Hash:
    """Return the hash (B,) of rows of float32 (B, C); 0 and -0 are one value."""
    array = np.ascontiguousarray(np.asarray(values, np.float32) + np.float32(0))
    return _combine(array.view(np.uint32), 1 << 42)


def hash_points(building: Hash, length: NDArray[np.int64]) -> Hash:
    """Return the hash (N,) of each point, from the hash (B,) and the number of points `length` (B,) of its building."""
    start = np.repeat(np.cumsum(length) - length, length)
    number = np.arange(len(start)) - start
    return mix(np.repeat(building, length) + _GOLDEN * (number + 1).astype(np.uint64))


class BottomSample:
    """The `size` rows of lowest rank among all that were added."""

    def __init__(self, size: int, columns: int) -> None:
        self.size = size
        self._rank: Hash = np.zeros(0, np.uint64)
        self._values: NDArray[np.float32] = np.zeros((0, columns), np.float32)

    def add(self, rank: Hash, *tables: NDArray[Any]) -> None:
        """Take in rows with ranks (N,); `tables` (N, C_i) stand side by side."""
        full = len(self._rank) >= self.size
        chosen = np.flatnonzero(rank < self._rank.max()) if full else np.arange(len(rank))
        if len(chosen) > self.size:
            chosen = chosen[np.argpartition(rank[chosen], self.size - 1)[: self.size]]
        picked = np.concatenate([np.asarray(table[chosen], np.float32) for table in tables], axis=1)
        ranks, values = np.concatenate([self._rank, rank[chosen]]), np.concatenate([self._values, picked])
        order = np.argsort(ranks, kind="stable")[: self.size]
        self._rank, self._values = ranks[order], values[order]

    @property
    def values(self) -> NDArray[np.float32]:
        """(at most `size`, C) by rank."""
        return self._values
