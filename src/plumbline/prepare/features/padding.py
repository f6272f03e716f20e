"""Fill the places beyond the end of a shorter sequence, as plug-ins.

The network masks its padding, so its answer is the same for all of them; `docs/training.md` says why zeros with a mask
are the default. The others are for runtimes and networks that know no mask.

Shape legend: B buildings, L places, F features.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plumbline.core.errors import InputError
from plumbline.params.plugins import PADDING

Values = NDArray[np.float32]
Mask = NDArray[np.bool_]


def zeros(values_BLF: Values, mask_BL: Mask) -> Values:
    """Return zeros."""
    return np.zeros((), dtype=values_BLF.dtype)


def mean(values_BLF: Values, mask_BL: Mask) -> Values:
    """Return the mean of the building's own scatterers, column by column."""
    total_BF = np.where(mask_BL[..., None], values_BLF, 0).sum(1, dtype=float)
    return np.asarray((total_BF / np.maximum(mask_BL.sum(1), 1)[:, None])[:, None, :])


def median(values_BLF: Values, mask_BL: Mask) -> Values:
    """Return the median of the building's own scatterers, column by column."""
    # Infinity sorts behind every value: the first places hold the building's own, in order.
    sorted_BLF = np.sort(np.where(mask_BL[..., None], values_BLF, np.inf), axis=1)
    count_B = np.maximum(mask_BL.sum(1), 1)
    low_BF, high_BF = (sorted_BLF[np.arange(len(count_B)), rank] for rank in ((count_B - 1) // 2, count_B // 2))
    return np.asarray(((low_BF + high_BF) / 2)[:, None, :])


def last(values_BLF: Values, mask_BL: Mask) -> Values:
    """Repeat the building's last scatterer."""
    last_B = np.maximum(mask_BL.sum(1), 1) - 1
    return np.asarray(values_BLF[np.arange(len(last_B)), last_B][:, None, :])


def replicate(values_BLF: Values, mask_BL: Mask) -> Values:
    """Repeat the whole sequence from its beginning, as often as there is room."""
    place_BL = np.arange(mask_BL.shape[1]) % np.maximum(mask_BL.sum(1), 1)[:, None]
    return np.take_along_axis(values_BLF, place_BL[..., None], axis=1)


def fill(values_BLF: Values, mask_BL: Mask, strategy: str = "mask") -> Values:
    """Return a copy of `values_BLF` with the padding replaced; the building's own values stay unchanged.

    Args:
        values_BLF: (B, L, F); what stands outside of the mask is not read.
        mask_BL: (B, L), True for the first places of each row. A row without any is filled with zeros.
        strategy: name in `params.plugins.PADDING`.

    Raises:
        InputError: there is no such strategy.
    """
    if strategy not in PADDING:
        raise InputError(f"padding: {strategy!r} found, one of {', '.join(PADDING)} needed.")
    if not values_BLF.size:
        return values_BLF.copy()
    padding = PADDING[strategy](values_BLF, mask_BL)
    somebody_B = np.asarray(mask_BL.any(1))
    padding = np.where(somebody_B[:, None, None], padding, 0)
    return np.where(mask_BL[..., None], values_BLF, padding).astype(values_BLF.dtype, copy=False)
