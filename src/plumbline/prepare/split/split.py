"""Split buildings, or fold them, by whole blocks of a city, so that neighbours never stand on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.params import Prepare
from plumbline.prepare.split.blocks import number_blocks


def fold_blocks(
    centre: NDArray[np.float64], city: NDArray[np.str_], folds: int, block_m: float, seed: int
) -> NDArray[np.int64]:
    """Return the fold (B,) of each building, 0 to `folds` - 1; blocks are kept whole.

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


TEST = "test"


def split(centre: NDArray[np.float64], city: NDArray[np.str_], params: Prepare) -> NDArray[np.str_]:
    """Return the name of the split of each building, as set in section `prepare`.

    With `params.folds`, fold number `params.fold` is the test split and the other splits share the rest: the test
    splits of all folds hold every building once.

    Args:
        centre: (B, 2) easting and northing, m.
        city: (B,) name.
        params: `split`, `block_m`, `seed`, `folds` and `fold` of it count.

    Raises:
        InputError: there are too few blocks for the splits or the folds.
    """
    if not params.folds:
        return split_blocks(centre, city, params.split, params.block_m, params.seed)
    test = fold_blocks(centre, city, params.folds, params.block_m, params.seed) == params.fold
    shares = {name: share for name, share in params.split.items() if name != TEST}
    result = np.full(len(city), TEST, dtype=f"<U{max(map(len, params.split))}")
    result[~test] = split_blocks(centre[~test], city[~test], shares, params.block_m, params.seed)
    return result


def split_blocks(
    centre: NDArray[np.float64], city: NDArray[np.str_], shares: Mapping[Any, float], block_m: float, seed: int
) -> NDArray[np.str_]:
    """Name of the split of each building.

    Each city's square blocks are shuffled and dealt, one at a time, to the split that is furthest below its share
    of buildings; so the splits have their shares of all buildings, and most cities are in each.

    Args:
        centre: (B, 2) easting and northing, m.
        city: (B,) name.
        shares: split -> share, any scale.
        block_m: side of a block, m.
        seed: of the shuffle.

    Raises:
        InputError: there are too few blocks: a split got none.
    """
    blocks = number_blocks(centre, city, block_m)
    names = list(shares)
    wanted = np.array([shares[name] for name in names]) / sum(shares.values())
    generator = np.random.default_rng(seed)
    given = np.zeros(len(names))
    choice = np.empty(len(blocks.size), dtype=np.intp)
    for of_city in np.split(np.arange(len(blocks.size)), np.flatnonzero(np.diff(blocks.city)) + 1):
        for number in generator.permutation(of_city):
            count = blocks.size[number]
            choice[number] = np.argmin((given + count / 2) / wanted)
            given[choice[number]] += count
    empty = [name for name, count in zip(names, given, strict=True) if not count]
    if empty:
        raise InputError(
            f"prepare.block_m: {len(blocks.size)} blocks of {block_m:g} m found, none is left for the split "
            f"{empty[0]}. Give smaller blocks or more buildings."
        )
    return np.array(names, dtype=str)[choice[blocks.number]]
