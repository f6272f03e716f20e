"""A padded batch in parts for threads that are free: buildings of similar length together, cut to their longest.

An operator spread over threads waits for the slowest of them at its end, and a small network has hundreds of short
operators. Parts need no such waiting, and the padding that a part does not need costs nothing.

Shape legend: B buildings, L scatterers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.export.inputs import MASK, SEQUENCES

LEAST_CELLS = 2048
"""Scatterers of a part, padding included, at least: for fewer, starting its operators takes longer than they do."""
PARTS_A_THREAD = 2
"""So that no thread is left with a part much longer than the others'."""


def parts(mask_BL: NDArray[np.bool_], threads: int) -> list[NDArray[np.intp]]:
    """Buildings of each part, the part with most cells first; all buildings once.

    Args:
        mask_BL: of the batch.
        threads: that are to work on it; with one there is one part.
    """
    length_B = places(mask_BL)
    order = np.argsort(-length_B, kind="stable")
    if threads < 2 or not len(order):
        return [order]
    least = max(LEAST_CELLS, int(length_B.sum()) / (PARTS_A_THREAD * threads))
    found, start = [], 0
    while start < len(order):
        count = max(1, int(np.ceil(least / length_B[order[start]])))
        found.append(order[start : start + count])
        start += count
    return found


def places(mask_BL: NDArray[np.bool_]) -> NDArray[np.intp]:
    """(B,) places that each building needs: up to its last scatterer."""
    return np.asarray(mask_BL.shape[1] - np.argmax(mask_BL[:, ::-1], axis=1))


def cut(inputs: Mapping[str, NDArray[Any]], part: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
    """The inputs of the buildings `part`, the longest of which comes first, without places that none of them needs."""
    longest = int(places(inputs[MASK][part[:1]])[0])
    return {
        name: value[part, :longest] if name in (*SEQUENCES, MASK) else value[part] for name, value in inputs.items()
    }
