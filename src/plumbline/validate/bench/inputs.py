"""Choose the buildings of a benchmark: prepared ones, or random ones with similar features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.export.weights import Trained
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE
from plumbline.prepare.features.sequences import Sequences, no_labels
from plumbline.prepare.features.shards import SequenceSet, Shards, load_shards

BUILDINGS = 2048
"""Buildings that are answered for at most: parity and accuracy need no more, and torch takes a second for them."""
LENGTHS = (5, 8, 12, 20, 40, 80)
"""Scatterers of the random buildings, in turn: from the fewest that are judged to what a fine sensor sees."""
RANDOM_BUILDINGS = 384
SEED = 0


@dataclass(frozen=True)
class BenchInputs:
    """Buildings and their source."""

    sequences: SequenceSet
    source: str
    """In words, for the table."""

    @property
    def labelled(self) -> bool:
        """Return whether every building has a label, so that accuracy can be measured."""
        return bool(np.isfinite(np.asarray(self.sequences.severity)).all())


def prepared_inputs(folder: Path) -> BenchInputs:
    """Draw at most `BUILDINGS` of a split, by a fixed seed.

    Args:
        folder: that of the stage `prepare`, of which the test split is taken, or of one split.

    Raises:
        InputError: there is no split, one is damaged or empty.
    """
    if not folder.is_dir():
        raise InputError(f"--prepared {folder}: no such folder. Give that of the stage `prepare`, or of one split.")
    split = folder / "test" if (folder / "test").is_dir() else folder
    shards = load_shards(split)
    return chosen(shards, str(split))


def chosen(sequences: SequenceSet, source: str) -> BenchInputs:
    """Draw at most `BUILDINGS` of these by a fixed seed; those with NaN or infinite features are left out.

    Raises:
        InputError: there is none.
    """
    whole = all_finite(sequences)
    if not whole.all():
        log.warning("%s: %d buildings with features that are no numbers are left out.", source, int((~whole).sum()))
        sequences = sequences.take(np.flatnonzero(whole))
    if not len(sequences):
        raise InputError(f"{source}: no building in it can be judged, so nothing can be measured on it.")
    count = min(BUILDINGS, len(sequences))
    if count == len(sequences):
        return BenchInputs(sequences, f"{source}, {count:,} buildings")
    index = np.sort(np.random.default_rng(SEED).permutation(len(sequences))[:count])
    return BenchInputs(sequences.take(index), f"{source}, {count:,} of {len(sequences):,} buildings")


def all_finite(sequences: SequenceSet) -> NDArray[np.bool_]:
    """Return (B,) whether all features of a building, and of its scatterers, are finite numbers."""
    parts = sequences.parts if isinstance(sequences, Shards) else (sequences,)
    found = [np.zeros(0, bool)]
    for part in parts:
        broken = ~(np.isfinite(part.distance).all(1) & np.isfinite(part.slope).all(1))
        broken_before = np.r_[0, np.cumsum(broken)]
        found.append(np.isfinite(part.geometry).all(1) & (np.diff(broken_before[part.offsets]) == 0))
    return np.concatenate(found)


def random_inputs(trained: Trained) -> BenchInputs:
    """Draw unlabelled buildings with normal features: means and deviations are those of the training data.

    Each feature is drawn by itself: good for speed and parity, and no house that ever stood.
    """
    random = np.random.default_rng(SEED)
    length = np.resize([min(n, trained.longest) for n in LENGTHS], RANDOM_BUILDINGS)
    rows = int(length.sum())

    def draw(name: str, count: int, columns: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        mean, deviation = (trained.statistics[f"{name}_{part}"] for part in ("mean", "sd"))
        return (mean + deviation * random.standard_normal((count, columns))).astype(np.float32)

    count = RANDOM_BUILDINGS
    sequences = Sequences(
        building_id=np.array([f"random{number:04d}" for number in range(count)]),
        city=np.full(count, "random"),
        offsets=np.r_[0, np.cumsum(length)].astype(np.int64),
        distance=draw("distance", rows, len(DISTANCE)),
        slope=draw("slope", rows, len(SLOPE)),
        geometry=draw("geometry", count, len(GEOMETRY)),
        **no_labels(count),
    )
    lengths = ", ".join(map(str, sorted(set(length.tolist()))))
    return BenchInputs(
        sequences, f"random inputs (seed {SEED}), {count} buildings of {lengths} scatterers; no accuracy"
    )
