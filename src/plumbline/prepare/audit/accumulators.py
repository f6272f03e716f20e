"""A fixed-size sample of rows that does not depend on their order, and the hashes behind it.

Each row has a pseudo-random rank made from what it is (its building's name), and the rows with the lowest ranks are
kept ("bottom-k", Cohen and Kaplan 2007, PODC). So the same buildings give the same sample, however they are sharded or
sorted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Hash = NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(value: Hash) -> Hash:
    """SplitMix64's finaliser (Steele, Lea and Flood 2014, OOPSLA): a bijection that spreads every bit."""
    z = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)), np.uint64)


def _combine(words: NDArray[np.uint32], salt: int) -> Hash:
    """(B,) hash of rows of words (B, W). Words of 0 add nothing: text in a wider array hashes alike."""
    total = np.zeros(len(words), np.uint64)
    place = mix(_GOLDEN * np.arange(1 + salt, 1 + salt + words.shape[1], dtype=np.uint64))
    for j in range(words.shape[1]):
        total += mix(words[:, j].astype(np.uint64) + place[j]) - mix(place[j : j + 1])
    return mix(total + np.uint64(salt))


def hash_names(city: NDArray[np.str_], building_id: NDArray[np.str_]) -> Hash:
    """(B,) hash of each building's city and identifier."""
    parts = []
    for salt, text in ((1 << 40, city), (1 << 41, building_id)):
        array = np.ascontiguousarray(text, dtype=np.str_)
        width = array.dtype.itemsize // 4
        parts.append(_combine(array.view(np.uint32).reshape(len(array), width), salt))
    return mix(parts[0] + _GOLDEN * parts[1])


def hash_values(values: NDArray[Any]) -> Hash:
    """(B,) hash of rows of float32 (B, C); 0 and -0 are one value."""
    array = np.ascontiguousarray(np.asarray(values, np.float32) + np.float32(0))
    return _combine(array.view(np.uint32), 1 << 42)


def hash_points(building: Hash, length: NDArray[np.int64]) -> Hash:
    """(N,) hash of the points of buildings (B,) that have `length` (B,) of them."""
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
