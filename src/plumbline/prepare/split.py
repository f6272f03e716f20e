"""Train, tune, calibrate, test: whole blocks of a city, so that neighbours never stand on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.errors import InputError


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
    cell = np.floor(centre / block_m).astype(np.int64)
    _, block = np.unique(np.array([f"{c}/{x}/{y}" for c, (x, y) in zip(city, cell, strict=True)]), return_inverse=True)
    names = list(shares)
    wanted = np.array([shares[name] for name in names]) / sum(shares.values())
    generator = np.random.default_rng(seed)
    given = np.zeros(len(names))
    result = np.empty(len(city), dtype=f"<U{max(map(len, names))}")
    for one in np.unique(city):
        for number in generator.permutation(np.unique(block[city == one])):
            rows = block == number
            choice = int(np.argmin((given + rows.sum() / 2) / wanted))
            given[choice] += rows.sum()
            result[rows] = names[choice]
    empty = [name for name, count in zip(names, given, strict=True) if not count]
    if empty:
        raise InputError(
            f"prepare.block_m: {block.max(initial=-1) + 1} blocks of {block_m:g} m found, none is left for the split "
            f"{empty[0]}. Give smaller blocks or more buildings."
        )
    return result
