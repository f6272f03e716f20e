"""Write millions of numbers as text fast: rows of a CSV as padded bytes; the padding is removed at the end.

A cell is a row of bytes in which 0 means nothing. A history's cells come from a table of all numbers with one
decimal; other columns are made digit by digit. Ten times as fast as formatting one number after the other.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Bytes = NDArray[np.uint8]
LARGEST_TENTHS = 99_999
"""Histories are written up to 9,999.9 either way: with the comma, a cell is one word of eight bytes."""
SEPARATOR, END = ord(","), ord("\n")


@lru_cache(maxsize=1)
def _table() -> NDArray[np.uint64]:
    """Return the cells of all numbers with one decimal, then the empty cell; each ends with a separator."""
    numbers = range(-LARGEST_TENTHS, LARGEST_TENTHS + 1)
    cells = [f"{number / 10:.1f},".rjust(8, "\0") for number in numbers] + [",".rjust(8, "\0")]
    return np.frombuffer("".join(cells).encode(), np.uint64)


def history_cells(values: Array) -> Bytes:
    """Return cells (N, 8 T) of histories (N, T) with one decimal; empty for NaN and beyond 9,999.9 either way."""
    tenths = np.rint(values * 10)
    known = np.abs(tenths) <= LARGEST_TENTHS  # false for NaN
    index = np.where(known, tenths + LARGEST_TENTHS, 2 * LARGEST_TENTHS + 1).astype(np.int64)
    return _table()[index].view(np.uint8)


def number_cells(values: Array, decimals: int) -> Bytes:
    """Return cells (N, W) of finite numbers (N,), exactly `decimals` decimals: no exponent, rounding noise or -0.0."""
    scaled = np.rint(np.asarray(values, float) * 10**decimals).astype(np.int64)
    left, negative = np.abs(scaled), scaled < 0
    digits = max(len(str(int(left.max(initial=0)))), decimals + 1)
    cells = np.zeros((len(left), 2 + digits + (decimals > 0)), np.uint8)
    cells[:, -1] = SEPARATOR
    column = cells.shape[1] - 2
    for place in range(digits):
        if place == decimals and decimals:
            cells[:, column] = ord(".")
            column -= 1
        left, digit = np.divmod(left, 10)
        # Leading zeros are no text, but for the one before the point.
        shown = (np.abs(scaled) >= 10**place) | (place <= decimals)
        cells[:, column] = np.where(shown, ord("0") + digit, 0)
        column -= 1
    cells[:, 0] = np.where(negative, ord("-"), 0)
    return cells


def word_cells(words: NDArray[np.bytes_]) -> Bytes:
    """Return cells (N, W) of ASCII texts (N,) without commas."""
    width = words.dtype.itemsize
    cells = np.zeros((len(words), width + 1), np.uint8)
    cells[:, :width] = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), width)
    cells[:, -1] = SEPARATOR
    return cells


def rows(cells: list[Bytes]) -> bytes:
    """Return the lines of a CSV of N rows, from the cells of its columns."""
    whole = np.concatenate(cells, axis=1)
    whole[:, -1] = END
    return whole.tobytes().translate(None, b"\0")
