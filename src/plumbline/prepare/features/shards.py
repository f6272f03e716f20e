"""Keep any number of buildings of a split in shards on disk, and read only the requested ones.

The files are mapped into memory: several processes that train on them share one copy, which
the system may drop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE
from plumbline.prepare.features.sequences import Sequences, concatenate

SHARD_BUILDINGS = 32_768
"""Number of buildings in a shard: some 40 MB with a dozen scatterers each."""


def _column_in_memory(name: str) -> Any:
    """Return a property: a column of all parts, which stays in memory after its first use."""
    return cached_property(
        lambda shards: np.concatenate([getattr(part, name) for part in shards.parts])
    )


class Shards:
    """B buildings in parts; columns with one value for each building stay in memory after
    their first use."""

    def __init__(self, parts: Sequence[Sequences]) -> None:
        self.parts = tuple(parts)
        self._starts = np.cumsum([0, *map(len, self.parts)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    length = _column_in_memory("length")
    """(B,) number of scatterers."""
    severity = _column_in_memory("severity")
    """(B,) permille; NaN without a label."""
    quadrant = _column_in_memory("quadrant")
    """(B,) code in `compass.QUADRANTS`, or `UNDEFINED`."""
    accepted = _column_in_memory("accepted")
    """(B, 4) quadrants that are right answers."""
    mechanism = _column_in_memory("mechanism")
    """(B,) code in `strain.MECHANISMS`, or `UNDEFINED`."""
    difficulty = _column_in_memory("difficulty")
    """(B,) 0 easy, 1 medium, 2 hard; -1 unknown."""

    @property
    def building_id(self) -> NDArray[np.str_]:
        """(B,) identifiers, read from disk on each access."""
        return np.concatenate([part.building_id for part in self.parts])

    @property
    def city(self) -> NDArray[np.str_]:
        """(B,) name of the city, read from disk on each access."""
        return np.concatenate([part.city for part in self.parts])

    @property
    def geometry(self) -> NDArray[np.float32]:
        """(B, len(GEOMETRY)), read from disk on each access."""
        return np.concatenate([part.geometry for part in self.parts])

    def take(self, index: NDArray[np.intp]) -> Sequences:
        """Read the buildings `index`, in that order, into memory."""
        index = np.asarray(index)
        owner = self._owner(index)
        if not len(index):
            return self.parts[0].take(index)
        present = np.unique(owner)
        loaded = concatenate(
            [self.parts[n].take(index[owner == n] - self._starts[n]) for n in present]
        )
        position = np.concatenate([np.flatnonzero(owner == n) for n in present])
        return loaded.take(np.argsort(position, kind="stable"))

    def pad(
        self, index: NDArray[np.intp], length: int | None = None, strategy: str = "mask"
    ) -> dict[str, NDArray[np.generic]]:
        """Return padded inputs as `Sequences.pad` does."""
        index = np.asarray(index)
        owner = self._owner(index)
        if len(index) and (owner == owner[0]).all():
            only: Sequences = self.parts[owner[0]]
            return only.pad(index - self._starts[owner[0]], length, strategy)
        width = int(self.length[index].max(initial=1)) if length is None else length
        columns = {"distance": len(DISTANCE), "slope": len(SLOPE)}
        result: dict[str, NDArray[np.generic]] = {
            name: np.empty((len(index), width, number), np.float32)
            for name, number in columns.items()
        }
        result["geometry"] = np.empty((len(index), len(GEOMETRY)), np.float32)
        result["mask"] = np.empty((len(index), width), bool)
        for number in np.unique(owner):
            rows = owner == number
            for name, values in (
                self.parts[number].pad(index[rows] - self._starts[number], width, strategy).items()
            ):
                result[name][rows] = values
        return result

    def _owner(self, index: NDArray[np.intp]) -> NDArray[np.intp]:
        return np.searchsorted(self._starts, index, side="right") - 1


SequenceSet = Sequences | Shards
"""Prepared buildings, in one part or in many."""


def save_shards(parts: Iterable[Sequences], folder: Path, buildings: int = SHARD_BUILDINGS) -> int:
    """Write buildings from portions of any size into shards of equal size; return the
    number of buildings.

    The caller sees to atomicity. At least one shard is written.
    """
    written = 0
    for number, sequences in enumerate(_equal_portions(parts, buildings)):
        sequences.save(folder / f"shard-{number:05d}")
        written += len(sequences)
    return written


def _equal_portions(parts: Iterable[Sequences], buildings: int) -> Iterator[Sequences]:
    """Yield portions of `buildings` each, then the remainder; at least one portion, which
    may be empty."""
    waiting: list[Sequences] = []
    is_first = True
    for part in parts:
        waiting.append(part)
        while (count := sum(map(len, waiting))) >= buildings:
            together = concatenate(waiting)
            yield together.take(np.arange(buildings))
            waiting, is_first = [together.take(np.arange(buildings, count))], False
    remainder = concatenate(waiting)
    if len(remainder) or is_first:
        yield remainder


def load_shards(folder: Path) -> Shards:
    """Map the shards of a split into memory.

    Raises:
        InputError: there is none, or one is damaged.
    """
    folders = sorted(folder.glob("shard-*"))
    if not folders:
        raise InputError(
            f"{folder}: no shard in it. Run `plumbline prepare` again.", key="shards.none"
        )
    names = [path.name for path in folders]
    if names != [f"shard-{number:05d}" for number in range(len(names))]:
        raise InputError(
            f"{folder}: a shard is missing between {names[0]} and {names[-1]}. Run `plumbline "
            "prepare`.",
            key="shards.missing",
        )
    return Shards([Sequences.load(path) for path in folders])
