"""Summarise a split of any size in one pass and little memory, and find what two splits share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.compass import QUADRANTS
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, DIFFICULTIES, category
from plumbline.prepare.audit.accumulators import BottomSample, Hash, Moments, hash_names, hash_points, hash_values
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, Column
from plumbline.prepare.features.sequences import UNDEFINED

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
        self.lengths: NDArray[np.int64] = np.zeros(1, np.int64)
        """Number of buildings with 0, 1, 2, ... scatterers."""
        self.cities: Counter[str] = Counter()
        self.categories: NDArray[np.int64] = np.zeros(len(CATEGORY_BOUNDS_PERMILLE) + 1, np.int64)
        self.quadrants: NDArray[np.int64] = np.zeros(len(QUADRANTS), np.int64)
        self.difficulty: NDArray[np.int64] = np.zeros(1 + len(DIFFICULTIES), np.int64)
        """(4,) unknown, easy, medium, hard."""
        self.wrong = dict.fromkeys(("severity", "quadrant", "quadrant_of_undamaged", "difficulty"), 0)
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
        self.lengths = _add_counts(self.lengths, np.bincount(length))
        self.cities.update(dict(zip(*(part.tolist() for part in np.unique(city, return_counts=True)), strict=True)))
        self._add_labels(severity, np.asarray(part.quadrant[rows]))
        self._add_difficulty(np.asarray(part.difficulty[rows], np.int64))

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

    def _add_difficulty(self, code: NDArray[np.int64]) -> None:
        known = (code >= -1) & (code < len(DIFFICULTIES))
        self.difficulty += np.bincount(code[known] + 1, minlength=len(DIFFICULTIES) + 1)
        self.wrong["difficulty"] += int((~known).sum())


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


def _add_counts(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total


EXAMPLES = 1000
"""Most shared hashes that are looked up again by name."""


@dataclass(frozen=True)
class Leak:
    """Buildings or blocks that two splits share, or that one split holds more than once (then both names are equal)."""

    splits: tuple[str, str]
    count: int
    example: str


def building_leaks(splits: Mapping[str, Any], summaries: Mapping[str, Summary]) -> list[Leak]:
    """Find buildings (city and identifier) in two splits, or twice in one; names confirm equal hashes."""
    hashes = {name: summary.names_hash for name, summary in summaries.items()}
    leaks = []
    for name, own in hashes.items():
        again = np.unique(own[1:][own[1:] == own[:-1]])
        named = _names(splits[name], again)
        repeated = sorted(key for key in set(named) if named.count(key) > 1)
        if repeated:
            leaks.append(Leak((name, name), len(again), _say(repeated[0])))
    for one, other in combinations(hashes, 2):
        shared = _shared(hashes[one], hashes[other])
        both = sorted(set(_names(splits[one], shared)) & set(_names(splits[other], shared)))
        if both:
            leaks.append(Leak((one, other), len(shared), _say(both[0])))
    return leaks


def twin_leaks(summaries: Mapping[str, Summary]) -> list[Leak]:
    """Find buildings with different names but equal geometry and fits, to the last bit: one building given twice."""
    hashes = {name: summary.geometry_hash for name, summary in summaries.items()}
    leaks = []
    for name, own in hashes.items():
        again = int((own[1:] == own[:-1]).sum())
        if again:
            leaks.append(Leak((name, name), again, ""))
    for one, other in combinations(hashes, 2):
        shared = len(_shared(hashes[one], hashes[other]))
        if shared:
            leaks.append(Leak((one, other), shared, ""))
    return leaks


def block_leaks(blocks: Mapping[str, Iterable[Any]]) -> list[Leak]:
    """Find blocks that two splits share; `blocks`: split -> names of its blocks."""
    named = {split: {str(block) for block in found} for split, found in blocks.items()}
    leaks = []
    for one, other in combinations(named, 2):
        both = named[one] & named[other]
        if both:
            leaks.append(Leak((one, other), len(both), min(both)))
    return leaks


def _shared(one: Hash, other: Hash) -> Hash:
    """Return the hashes in both of two ascending arrays, each once."""
    many, few = (one, other) if len(one) >= len(other) else (other, one)
    if not len(few):
        return few
    at = np.minimum(np.searchsorted(many, few), len(many) - 1)
    return np.unique(few[many[at] == few])


def _names(sequences: Any, wanted: Hash) -> list[tuple[str, str]]:
    """Return city and identifier of the buildings with these hashes (the first `EXAMPLES` of them)."""
    if not len(wanted):
        return []
    few = wanted[:EXAMPLES]
    found = []
    for part in parts_of(sequences):
        city, ids = np.asarray(part.city, np.str_), np.asarray(part.building_id, np.str_)
        rows = np.flatnonzero(np.isin(hash_names(city, ids), few))
        found += [(str(city[row]), str(ids[row])) for row in rows]
    return found


def _say(key: tuple[str, str]) -> str:
    return f"{key[1]} of {key[0]}"
