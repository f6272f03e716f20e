"""Divide a city into square blocks, which stay whole when buildings are split."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Blocks(NamedTuple):
    """K blocks that hold B buildings."""

    number: NDArray[np.intp]
    """(B,) block of each building; numbered by city, within it by the text `x/y` of the block's place."""
    city: NDArray[np.intp]
    """(K,) number of each block's city, ascending."""
    size: NDArray[np.intp]
    """(K,) buildings in each block."""


def number_blocks(centre: NDArray[np.float64], city: NDArray[np.str_], block_m: float) -> Blocks:
    """Find the block of each building: the square of side `block_m` in its city's grid that holds its centre.

    A block holds its western and southern edge. Cities are places apart, whatever their coordinates: two of one name
    are one city, and two of different names share no block.

    Args:
        centre: (B, 2) easting and northing, m.
        city: (B,) name.
        block_m: side of a block, m.
    """
    cell = np.floor(centre / block_m).astype(np.int64)
    x, x_code = np.unique(cell[:, 0], return_inverse=True)
    y, y_code = np.unique(cell[:, 1], return_inverse=True)
    name_code = _city_codes(city)
    # One integer a building instead of one text: sorting millions of them takes seconds.
    key, found, count = np.unique(
        (name_code * len(x) + x_code) * len(y) + y_code, return_inverse=True, return_counts=True
    )
    place, column = np.divmod(key, max(len(y), 1))
    of_city, row = np.divmod(place, max(len(x), 1))
    # The order decides the shuffle, and so the split: that of the text, as it was from the first data set on.
    text = np.array([f"{a}/{b}" for a, b in zip(x[row].tolist(), y[column].tolist(), strict=True)], dtype=str)
    order = np.lexsort((text, of_city))
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return Blocks(rank[found], of_city[order], count[order])


def _city_codes(city: NDArray[np.str_]) -> NDArray[np.intp]:
    """Return the rank (B,) of each name; a city's buildings mostly stand together, so only their runs are sorted."""
    starts = np.flatnonzero(np.r_[np.ones(min(len(city), 1), dtype=bool), city[1:] != city[:-1]])
    code = np.unique(city[starts], return_inverse=True)[1]
    return np.asarray(np.repeat(code, np.diff(np.r_[starts, len(city)])), dtype=np.intp)
