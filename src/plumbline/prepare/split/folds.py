"""Folds for cross-validation where too few buildings have labels to set some of them aside for good."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.prepare.split.blocks import number_blocks


def fold_blocks(
    centre: NDArray[np.float64], city: NDArray[np.str_], folds: int, block_m: float, seed: int
) -> NDArray[np.int64]:
    """(B,) number of the fold of each building, 0 to `folds` - 1; blocks are kept whole.

    City after city, the blocks are dealt from the largest down (chance decides between equals), each to the fold with
    the fewest buildings so far. No two folds differ by more than the buildings of the largest block (Graham 1969).

    Args:
        centre: (B, 2) easting and northing, m.
        city: (B,) name.
        folds: how many.
        block_m: side of a block, m.
        seed: of the order of equals.

    Raises:
        InputError: there are fewer blocks than folds.
    """
    blocks = number_blocks(centre, city, block_m)
    if len(blocks.size) < folds:
        raise InputError(
            f"prepare.folds: {folds} found, but the buildings stand in {len(blocks.size)} blocks of {block_m:g} m. "
            "Ask for fewer folds, or give smaller blocks (prepare.block_m) or more buildings."
        )
    chance = np.random.default_rng(seed).permutation(len(blocks.size))
    held = [0] * folds
    fold = np.empty(len(blocks.size), dtype=np.int64)
    for number in np.lexsort((chance, -blocks.size, blocks.city)):
        fold[number] = held.index(min(held))
        held[fold[number]] += int(blocks.size[number])
    return fold[blocks.number]
