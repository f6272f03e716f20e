"""Sum up a split in one pass.

A sample has a fixed size. Each row has a pseudo-random rank made from what it is (its
building's name), and the rows with the lowest ranks are kept ("bottom-k", Cohen and Kaplan
2007, PODC). So the same buildings give the same sample, however they are sharded or sorted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas
from numpy.typing import NDArray

from plumbline.core.compass import QUADRANTS
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, category
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, Column
from plumbline.prepare.features.sequences import UNDEFINED

Row = NDArray[np.float64]
Hash = NDArray[np.uint64]
TABLES: dict[str, tuple[Column, ...]] = {"distance": DISTANCE, "slope": SLOPE, "geometry": GEOMETRY}
ROWS = 250_000
"""Number of scatterers, or buildings, summed up together."""
SAMPLE = 20_000
"""Number of buildings, and of scatterers, of a split or a city from which distributions are
estimated."""


class Moments:
    """Running moments of C columns, about the mean of the first rows; values that are not
    finite are left out."""

    def __init__(self, columns: int) -> None:
        self.rows = 0
        self.count: NDArray[np.int64] = np.zeros(columns, np.int64)
        """(C,) finite values."""
        self.low: Row = np.full(columns, np.inf)
        self.high: Row = np.full(columns, -np.inf)
        self.first_bad: tuple[int, int, float] | None = None
        """Row, column and value of the first one that is not finite."""
        self._about: Row = np.zeros(columns)
        self._powers: Row = np.zeros((3, columns))

    def add(self, values: NDArray[Any]) -> None:
        """Add the next rows (N, C)."""
        wide = np.asarray(values, np.float64)
        finite = np.isfinite(wide)
        if self.first_bad is None and not finite.all():
            row, column = np.argwhere(~finite)[0]
            self.first_bad = (self.rows + int(row), int(column), float(wide[row, column]))
        if not self.rows:
            self._about = np.where(finite, wide, 0.0).sum(0) / np.maximum(finite.sum(0), 1)
        self.rows += len(wide)
        self.count += finite.sum(0)
        off = np.where(finite, wide - self._about, 0.0)
        self._powers += np.stack([off.sum(0), (off**2).sum(0), (off**3).sum(0)])
        self.low = np.minimum(self.low, np.where(finite, wide, np.inf).min(0, initial=np.inf))
        self.high = np.maximum(self.high, np.where(finite, wide, -np.inf).max(0, initial=-np.inf))

    @property
    def bad(self) -> NDArray[np.int64]:
        """(C,) values that are not finite."""
        return self.rows - self.count

    @property
    def mean(self) -> Row:
        """(C,)"""
        return np.asarray(self._about + self._powers[0] / np.maximum(self.count, 1), np.float64)

    @property
    def sd(self) -> Row:
        """(C,) standard deviation, of the population."""
        first, second, _ = self._powers / np.maximum(self.count, 1)
        return np.asarray(np.sqrt(np.maximum(second - first**2, 0)), np.float64)

    @property
    def skew(self) -> Row:
        """(C,) third standardised moment, of the population; 0 where a column does not vary."""
        first, second, third = self._powers / np.maximum(self.count, 1)
        varies = (self.low < self.high) & (self.sd > 0)
        central = third - 3 * first * second + 2 * first**3
        return np.where(varies, central / np.where(varies, self.sd, 1) ** 3, 0.0)


def hash_rows(columns: Mapping[str, NDArray[Any]] | NDArray[Any]) -> Hash:
    """Return the hash (B,) of each row of a table (B, C), or of columns (B,)."""
    return np.asarray(
        pandas.util.hash_pandas_object(pandas.DataFrame(columns), index=False), np.uint64
    )


def hash_names(city: NDArray[np.str_], building_id: NDArray[np.str_]) -> Hash:
    """Return the hash (B,) of each building's city and identifier."""
    return hash_rows({"city": city, "building_id": building_id})


class BottomSample:
    """The `size` rows of lowest rank among all that were added."""

    def __init__(self, size: int, columns: int) -> None:
        self.size = size
        self._rank: Hash = np.zeros(0, np.uint64)
        self.values: NDArray[np.float32] = np.zeros((0, columns), np.float32)
        """(at most `size`, C) by rank."""

    def add(self, rank: Hash, *tables: NDArray[Any]) -> None:
        """Add rows with ranks (N,); `tables` (N, C_i) are joined by columns."""
        rank = np.concatenate([self._rank, rank])
        values = np.concatenate([self.values, np.concatenate(tables, axis=1)])
        order = np.argsort(rank, kind="stable")[: self.size]
        self._rank, self.values = rank[order], values[order]


class Summary:
    """One split. Memory: two samples, and 16 bytes a building for the two hashes that find
    buildings given twice."""

    def __init__(self, name: str, sample: int) -> None:
        self.name = name
        self.moments = {table: Moments(len(columns)) for table, columns in TABLES.items()}
        self.buildings = 0
        self.points = 0
        self.cities: Counter[str] = Counter()
        self.categories: NDArray[np.int64] = np.zeros(len(CATEGORY_BOUNDS_PERMILLE) + 1, np.int64)
        self.quadrants: NDArray[np.int64] = np.zeros(len(QUADRANTS), np.int64)
        self.wrong = dict.fromkeys(("severity", "quadrant", "quadrant_of_undamaged"), 0)
        """Labels that cannot be: not a number or negative, no such code, a quadrant below
        category 1."""
        self.quadrant_unknown = 0
        """Damaged buildings without a quadrant."""
        self.severity_max = 0.0
        self.first_bad: dict[str, tuple[str, float]] = {}
        """Per table, the place of the first value that is not finite, and this value."""
        self.names_hash: Hash = np.zeros(0, np.uint64)
        """(B,) hashes of city and identifier."""
        self.geometry_hash: Hash = np.zeros(0, np.uint64)
        """(B,) hashes of the geometry's values."""
        self._of_buildings = BottomSample(sample, len(GEOMETRY) + 1)
        self._of_points = BottomSample(sample, len(DISTANCE) + len(SLOPE))

    def sampled(self, table: str) -> NDArray[np.float32]:
        """Return the sampled rows of a table, or `severity` (n, 1)."""
        at = len(DISTANCE), len(GEOMETRY)
        return {
            "distance": self._of_points.values[:, : at[0]],
            "slope": self._of_points.values[:, at[0] :],
            "geometry": self._of_buildings.values[:, : at[1]],
            "severity": self._of_buildings.values[:, at[1] :],
        }[table]

    def add(self, part: Any) -> None:
        """Add all buildings of a part (`Sequences`), chunk by chunk."""
        for rows in chunks(np.asarray(part.offsets)):
            self._add_rows(part, rows)

    def _add_rows(self, part: Any, rows: slice) -> None:
        offsets = np.asarray(part.offsets[rows.start : rows.stop + 1])
        points = slice(int(offsets[0]), int(offsets[-1]))
        length = np.diff(offsets)
        city, ids = (
            np.asarray(part.city[rows], np.str_),
            np.asarray(part.building_id[rows], np.str_),
        )
        geometry, severity = (
            np.asarray(part.geometry[rows]),
            np.asarray(part.severity[rows], np.float32),
        )
        distance, slope = np.asarray(part.distance[points]), np.asarray(part.slope[points])
        owner = np.repeat(np.arange(len(length)), length)
        self._add_table("distance", distance, ids[owner])
        self._add_table("slope", slope, ids[owner])
        self._add_table("geometry", geometry, ids)
        rank = hash_names(city, ids)
        self.names_hash = np.concatenate([self.names_hash, rank])
        # -0 is 0.
        self.geometry_hash = np.concatenate(
            [self.geometry_hash, hash_rows(geometry + np.float32(0))]
        )
        self._of_buildings.add(rank, geometry, severity[:, None])
        number = np.arange(len(owner)) - np.repeat(offsets[:-1] - offsets[0], length)
        self._of_points.add(hash_rows({"building": rank[owner], "number": number}), distance, slope)
        self.buildings += len(length)
        self.points += len(owner)
        self.cities.update(city.tolist())
        self._add_labels(severity, np.asarray(part.quadrant[rows]))

    def _add_table(self, table: str, values: NDArray[Any], ids: NDArray[np.str_]) -> None:
        """Add rows of a table; `ids` (N,) are those of their buildings."""
        moments = self.moments[table]
        before = moments.rows
        moments.add(values)
        if table not in self.first_bad and moments.first_bad is not None:
            row, column, value = moments.first_bad
            where = (
                f"split {self.name}, {table}, building {ids[row - before]}, row {row}, "
                f"column {TABLES[table][column].name}"
            )
            self.first_bad[table] = where, value

    def _add_labels(self, severity: NDArray[np.float32], quadrant: NDArray[Any]) -> None:
        usable = np.isfinite(severity) & (severity >= 0)
        is_code = (quadrant >= 0) & (quadrant < len(QUADRANTS))
        damaged = usable & (category(np.where(usable, severity, 0)) > 0)
        self.categories += np.bincount(category(severity[usable]), minlength=len(self.categories))
        self.quadrants += np.bincount(
            quadrant[is_code & damaged].astype(np.int64), minlength=len(QUADRANTS)
        )
        self.wrong["severity"] += int((~usable).sum())
        self.wrong["quadrant"] += int((~is_code & (quadrant != UNDEFINED)).sum())
        self.wrong["quadrant_of_undamaged"] += int((is_code & usable & ~damaged).sum())
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
        result.add(part)
    return result


def parts_of(sequences: Any) -> list[Any]:
    """Return the shards of a split, or the split itself in a list."""
    return list(getattr(sequences, "parts", [sequences]))


def chunks(offsets: NDArray[np.int64], rows: int = ROWS) -> Iterator[slice]:
    """Yield runs of whole buildings with at most `rows` scatterers and `rows` buildings, or
    a single building."""
    start, count = 0, len(offsets) - 1
    while start < count:
        stop = int(np.searchsorted(offsets, offsets[start] + rows, side="right")) - 1
        stop = min(max(stop, start + 1), start + rows, count)
        yield slice(start, stop)
        start = stop


class Leak(NamedTuple):
    """Buildings or blocks in two splits, or twice in one (then both names are equal)."""

    splits: tuple[str, str]
    number: int
    example: str


def find_leaks(keys: Mapping[str, NDArray[Any]], example: Callable[[str, Any], str]) -> list[Leak]:
    """Find what one split contains more than once, and what two splits share.

    Args:
        keys: split -> key (B,) of each of its buildings or blocks.
        example: returns the name of what has a key in a split.
    """
    shared = {}
    for name, values in keys.items():
        distinct, count = np.unique(values, return_counts=True)
        shared[name, name] = distinct[count > 1]
    shared |= {pair: np.intersect1d(keys[pair[0]], keys[pair[1]]) for pair in combinations(keys, 2)}
    return [
        Leak(pair, len(common), example(pair[0], common[0]))
        for pair, common in shared.items()
        if len(common)
    ]


def building_name(sequences: Any, key: np.uint64) -> str:
    """Return identifier and city of the building with this hash of its name."""
    for part in parts_of(sequences):
        city, ids = np.asarray(part.city, np.str_), np.asarray(part.building_id, np.str_)
        for row in np.flatnonzero(hash_names(city, ids) == key):
            return f"{ids[row]} of {city[row]}"
    raise AssertionError("the hash is one of these buildings")
