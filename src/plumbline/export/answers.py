"""Answer one padded batch or all buildings under any runtime: sort by length, cut, answer,
and put back in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import track
from plumbline.export.interface import MASK, SEQUENCES, Signature
from plumbline.prepare.features.shards import SequenceSet

CELLS = 1 << 15
"""Largest number of scatterers of a batch, padding included: bounds the memory at any length."""


def batches(
    length: NDArray[np.int64],
    cells: int,
    rule: Literal["shrink", "fill"],
    max_size: int | None = None,
) -> Iterator[NDArray[np.intp]]:
    """Yield batches of buildings of similar length, by rising length: the last one in a
    batch is the longest.

    A batch of another shape has answers that differ in the last bits: so each caller keeps
    its rule.

    Args:
        length: (B,) scatterers of each building.
        cells: of a batch, padding included, at most; one building at least.
        rule: `fill` takes the largest batch that has room. `shrink` guesses it by the
            shortest building, and again by the longest of that guess: it may be smaller.
        max_size: largest number of buildings of a batch.
    """
    order = np.argsort(length, kind="stable")
    while len(order):
        longest = length[order]
        if rule == "fill":
            # Ascending lengths: the longest of the first n is the nth.
            size = int((longest * np.arange(1, len(order) + 1) <= cells).sum())
            size = min(max_size or size, size)
        else:
            guess = min(len(order), max_size or len(order), max(1, cells // int(longest[0])))
            size = min(guess, cells // int(longest[guess - 1]))
        yield order[: max(1, size)]
        order = order[max(1, size) :]


class Answers(NamedTuple):
    """Answers for B buildings, in their order; see `model.diagnosis.Answer`."""

    quadrant_probability: NDArray[np.float32]
    severity_permille: NDArray[np.float32]
    severity_low: NDArray[np.float32]
    severity_high: NDArray[np.float32]
    novelty: NDArray[np.float32]
    accepted_probability: NDArray[np.float32]
    category_probability: NDArray[np.float32]
    level_probability: NDArray[np.float32]
    mechanism_probability: NDArray[np.float32]


def empty_answers(buildings: int) -> Answers:
    """Return answers of zeros for `buildings` buildings, to be filled in."""
    shapes: tuple[tuple[int, ...], ...] = ((4,), (), (), (), (), (4,), (5,), (16,), (6,))
    return Answers(*(np.zeros((buildings, *shape), np.float32) for shape in shapes))


class Released(ABC):
    """A released model under some runtime."""

    signature: Signature

    @abstractmethod
    def execute(self, inputs: Mapping[str, NDArray[Any]]) -> Sequence[NDArray[np.float32]]:
        """Return the outputs in the order of `Answers`, for a checked batch that is not empty."""

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> Answers:
        """Answer one padded batch, as `Sequences.pad` makes it.

        Raises:
            InputError: it is not what the model takes, see `Signature.check`.
        """
        self.signature.check(inputs)
        return self._answer(inputs)

    def answer(self, sequences: SequenceSet, shown: bool = False) -> Answers:
        """Answer for all buildings, those of similar length together.

        A building with a feature that is no finite number, as absurd data give, has answers
        that are none: it alone is not judged.

        Args:
            sequences: of the buildings.
            shown: whether the user sees the progress.

        Raises:
            InputError: a building has no scatterer, or more than the model takes.
        """
        self.signature.check_lengths(np.asarray(sequences.length))
        parts, rows = [], []
        indices = list(
            batches(np.asarray(sequences.length), CELLS, "shrink", self.signature.max_batch)
        )
        for index in track(indices, len(indices), "judge") if shown else indices:
            inputs: dict[str, NDArray[Any]] = sequences.pad(index)
            self.signature.check(inputs, finite=False)
            parts.append(self._answer(inputs))
            rows.append(index)
        if not parts:
            return empty_answers(0)
        back = np.argsort(np.concatenate(rows))
        return Answers(*(np.concatenate(part)[back] for part in zip(*parts, strict=True)))

    def _answer(self, inputs: Mapping[str, NDArray[Any]]) -> Answers:
        return Answers(*self.execute(inputs)) if len(inputs[MASK]) else empty_answers(0)


MIN_CELLS = 2048
"""Smallest number of scatterers of a part, padding included: with fewer, starting its operators
takes longer than running them."""
PARTS_A_THREAD = 2
"""Number of parts for each thread, so that none works much longer than the others."""


def split_by_length(mask_BL: NDArray[np.bool_], threads: int) -> list[NDArray[np.intp]]:
    """Split the buildings into parts of similar length, the part with most cells first.

    Args:
        mask_BL: of the batch.
        threads: number of threads that work on it; with one there is one part.
    """
    length_B = needed_places(mask_BL)
    order = np.argsort(-length_B, kind="stable")
    if threads < 2 or not len(order):
        return [order]
    min_cells = max(MIN_CELLS, int(length_B.sum()) / (PARTS_A_THREAD * threads))
    parts, start = [], 0
    while start < len(order):
        count = max(1, int(np.ceil(min_cells / length_B[order[start]])))
        parts.append(order[start : start + count])
        start += count
    return parts


def needed_places(mask_BL: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return (B,) places that each building needs: up to its last scatterer."""
    return np.asarray(mask_BL.shape[1] - np.argmax(mask_BL[:, ::-1], axis=1))


def cut_to_longest(
    inputs: Mapping[str, NDArray[Any]], part: NDArray[np.intp]
) -> dict[str, NDArray[Any]]:
    """Return the inputs of the buildings `part`, cut to the length of the first, which is
    the longest."""
    longest = int(needed_places(inputs[MASK][part[:1]])[0])
    return {
        name: value[part, :longest] if name in (*SEQUENCES, MASK) else value[part]
        for name, value in inputs.items()
    }
