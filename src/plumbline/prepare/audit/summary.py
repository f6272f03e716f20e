"""Sum up a split in one pass.

A sample has a fixed size. Each row has a pseudo-random rank made from what it is (its building's name), and the rows
with the lowest ranks are kept ("bottom-k", Cohen and Kaplan 2007, PODC). So the same buildings give the same sample,
however they are sharded or sorted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.compass import QUADRANTS
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, category
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, Column
from plumbline.prepare.features.sequences import UNDEFINED

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


TABLES: dict[str, tuple[Column, ...]] = {"distance": DISTANCE, "slope": SLOPE, "geometry": GEOMETRY}
ROWS = 250_000
"""Scatterers, or buildings, looked at together."""


class Summary:
    """One split. Memory: two samples, and 16 bytes a building for the two hashes that find buildings given twice."""

    def __init__(self, name: str, sample: int) -> None:
        self.name = name
        self.moments = {table: Moments(len(columns)) for table, columns in TABLES.items()}
        self.buildings = 0
        self.points = 0
        self.cities: Counter[str] = Counter()
        self.categories: NDArray[np.int64] = np.zeros(len(CATEGORY_BOUNDS_PERMILLE) + 1, np.int64)
        self.quadrants: NDArray[np.int64] = np.zeros(len(QUADRANTS), np.int64)
        self.wrong = dict.fromkeys(("severity", "quadrant", "quadrant_of_undamaged"), 0)
        """Labels that cannot be: not a number or negative, no such code, a quadrant below category 1."""
        self.quadrant_unknown = 0
        """Damaged buildings without a quadrant."""
        self.severity_max = 0.0
        self.first_bad: dict[str, str] = {}
        """Per table, the place of the first value that is not finite."""
        self._of_buildings = BottomSample(sample, len(GEOMETRY) + 1)
        self._of_points = BottomSample(sample, len(DISTANCE) + len(SLOPE))
        self._names: list[Hash] = []
        self._twins: list[Hash] = []

    @property
    def names_hash(self) -> Hash:
        """(B,) ascending hashes of city and identifier."""
        return np.sort(np.concatenate([np.zeros(0, np.uint64), *self._names]))

    @property
    def geometry_hash(self) -> Hash:
        """(B,) ascending hashes of the geometry's values."""
        return np.sort(np.concatenate([np.zeros(0, np.uint64), *self._twins]))

    def sampled(self, table: str) -> NDArray[np.float32]:
        """Return the sampled rows of a table, or `severity` (n, 1)."""
        at = len(DISTANCE), len(GEOMETRY)
        return {
            "distance": self._of_points.values[:, : at[0]],
            "slope": self._of_points.values[:, at[0] :],
            "geometry": self._of_buildings.values[:, : at[1]],
            "severity": self._of_buildings.values[:, at[1] :],
        }[table]

    def add(self, part: Any, rows: slice) -> None:
        """Take in the buildings `rows` of a part (`Sequences`)."""
        offsets = np.asarray(part.offsets[rows.start : rows.stop + 1])
        points = slice(int(offsets[0]), int(offsets[-1]))
        length = np.diff(offsets)
        city, ids = np.asarray(part.city[rows], np.str_), np.asarray(part.building_id[rows], np.str_)
        geometry, severity = np.asarray(part.geometry[rows]), np.asarray(part.severity[rows], np.float32)
        distance, slope = np.asarray(part.distance[points]), np.asarray(part.slope[points])
        for table, values in (("distance", distance), ("slope", slope), ("geometry", geometry)):
            self._add_table(table, values, ids, length)
        rank = hash_names(city, ids)
        self._names.append(rank)
        self._twins.append(hash_values(geometry))
        self._of_buildings.add(rank, geometry, severity[:, None])
        self._of_points.add(hash_points(rank, length), distance, slope)
        self.buildings += len(length)
        self.points += int(length.sum())
        self.cities.update(dict(zip(*(part.tolist() for part in np.unique(city, return_counts=True)), strict=True)))
        self._add_labels(severity, np.asarray(part.quadrant[rows]))

    def _add_table(self, table: str, values: NDArray[Any], ids: NDArray[np.str_], length: NDArray[np.int64]) -> None:
        moments = self.moments[table]
        before = moments.rows
        fresh = moments.first_bad is None
        moments.add(values)
        if fresh and moments.first_bad is not None:
            row, column, value = moments.first_bad
            owner = ids if table == "geometry" else np.repeat(ids, length)
            self.first_bad[table] = (
                f"split {self.name}, {table}, building {owner[row - before]}, row {row}, column "
                f"{TABLES[table][column].name}: {value}"
            )

    def _add_labels(self, severity: NDArray[np.float32], quadrant: NDArray[Any]) -> None:
        usable = np.isfinite(severity) & (severity >= 0)
        known = (quadrant >= 0) & (quadrant < len(QUADRANTS))
        found = category(severity[usable])
        damaged = usable & (category(np.where(usable, severity, 0)) > 0)
        self.categories += np.bincount(found, minlength=len(self.categories))
        self.quadrants += np.bincount(quadrant[known & damaged].astype(np.int64), minlength=len(QUADRANTS))
        self.wrong["severity"] += int((~usable).sum())
        self.wrong["quadrant"] += int((~known & (quadrant != UNDEFINED)).sum())
        self.wrong["quadrant_of_undamaged"] += int((known & usable & ~damaged).sum())
        self.quadrant_unknown += int((damaged & (quadrant == UNDEFINED)).sum())
        self.severity_max = max(self.severity_max, float(severity[usable].max(initial=0)))


def summarise(name: str, sequences: Any, sample: int) -> Summary:
    """Summarise a split in one pass over its buildings.

    Args:
        name: of the split.
        sequences: `Sequences`, or what has them as `parts`.
        sample: rows kept for quantiles, of buildings and of scatterers.
    """
    result = Summary(name, sample)
    for part in parts_of(sequences):
        for rows in chunks(np.asarray(part.offsets)):
            result.add(part, rows)
    return result


def parts_of(sequences: Any) -> list[Any]:
    """Return the shards of a split, or the split itself in a list."""
    return list(getattr(sequences, "parts", [sequences]))


def chunks(offsets: NDArray[np.int64], rows: int = ROWS) -> Iterator[slice]:
    """Yield runs of whole buildings with at most `rows` scatterers and `rows` buildings, or a single building."""
    start, count = 0, len(offsets) - 1
    while start < count:
        stop = int(np.searchsorted(offsets, offsets[start] + rows, side="right")) - 1
        stop = min(max(stop, start + 1), start + rows, count)
        yield slice(start, stop)
        start = stop


@dataclass(frozen=True)
class Leak:
    """Buildings or blocks that two splits share, or that one split holds more than once (then both names are equal)."""

    splits: tuple[str, str]
    count: int
    example: str


def building_leaks(splits: Mapping[str, Any], summaries: Mapping[str, Summary]) -> list[Leak]:
    """Find buildings (city and identifier) in two splits, or twice in one."""
    hashes = {name: summary.names_hash for name, summary in summaries.items()}
    return [Leak((one, other), len(shared), _name_of(splits[one], shared[0])) for one, other, shared in _shared(hashes)]


def twin_leaks(summaries: Mapping[str, Summary]) -> list[Leak]:
    """Find buildings with different names but equal geometry and fits, to the last bit: one building given twice."""
    hashes = {name: summary.geometry_hash for name, summary in summaries.items()}
    return [Leak((one, other), len(shared), "") for one, other, shared in _shared(hashes)]


def block_leaks(blocks: Mapping[str, Iterable[Any]]) -> list[Leak]:
    """Find blocks that two splits share; `blocks`: split -> names of its blocks."""
    named = {split: {str(block) for block in found} for split, found in blocks.items()}
    leaks = []
    for one, other in combinations(named, 2):
        both = named[one] & named[other]
        if both:
            leaks.append(Leak((one, other), len(both), min(both)))
    return leaks


def _shared(hashes: Mapping[str, Hash]) -> Iterator[tuple[str, str, Hash]]:
    """Yield the hashes that one split has more than once, and those that two have; `hashes` (B,) are ascending."""
    for name, own in hashes.items():
        again = np.unique(own[1:][own[1:] == own[:-1]])
        if len(again):
            yield name, name, again
    for one, other in combinations(hashes, 2):
        shared = np.intersect1d(hashes[one], hashes[other])
        if len(shared):
            yield one, other, shared


def _name_of(sequences: Any, wanted: np.uint64) -> str:
    """Return identifier and city of the building with this hash."""
    for part in parts_of(sequences):
        city, ids = np.asarray(part.city, np.str_), np.asarray(part.building_id, np.str_)
        for row in np.flatnonzero(hash_names(city, ids) == wanted):
            return f"{ids[row]} of {city[row]}"
    raise AssertionError("the hash is one of these buildings")
