"""Numbers that stand for no value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CODES = (9999.0, 99999.0, 999999.0, 32767.0, 32768.0)
"""Either sign. What programs write where there is nothing; a displacement of exactly so many units there is not."""


NO_HEIGHT_M = -999.0
"""No building stands so low, and it is written where a height is not known."""


def drop_codes(values: NDArray[np.floating]) -> None:
    """Make each of `CODES` NaN, in place."""
    # Most tables have none, and one comparison with their largest value shows it.
    most, least = (float(end.reduce(values, axis=None, initial=0)) for end in (np.fmax, np.fmin))
    if max(most, -least) >= CODES[0]:
        values[np.isin(np.abs(values), CODES)] = np.nan


def drop_height_codes(values: NDArray[np.floating]) -> None:
    """The same of heights in m, which are no displacements: a ground of -999 mm there is, a height of -999 m not."""
    drop_codes(values)
    values[values == NO_HEIGHT_M] = np.nan
