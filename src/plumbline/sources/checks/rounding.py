"""Places that were rounded so far that points lie on other buildings than they belong to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log

LARGEST_M = 2.0
"""Steps up to here are no more than what a radar's own places err by."""
METRES_A_DEGREE = 111_000.0
FINEST, COARSEST = -5, 3
"""Powers of ten that are tried."""
FEWEST, DISTINCT = 30, 5
"""Fewer points, or fewer places of them, may have a common step by chance."""
NEAR = 1e-3
"""Steps that a place may be off a multiple, for what doubles and projections round themselves."""


def step_of(values: NDArray[np.float64]) -> float | None:
    """The largest power of ten of which all are multiples; None where it is finer than tried, or they are too few."""
    if len(values) < FEWEST:
        return None
    for power in range(COARSEST, FINEST - 1, -1):
        count = values / 10.0**power
        if np.abs(count - np.round(count)).max(initial=0) < NEAR and len(np.unique(np.round(count))) >= DISTINCT:
            return float(10.0**power)
    return None


def warn_of_rounding(source: object, x: NDArray[np.float64], y: NDArray[np.float64], degrees: bool) -> None:
    """Say so where places have so few decimals that they are further apart than points of one building.

    Args:
        source: names the file. x, y: (N,) as the file has them. degrees: they are longitudes and latitudes, not metres.
    """
    for name, values in (("longitudes" if degrees else "eastings", x), ("latitudes" if degrees else "northings", y)):
        step = step_of(values)
        metres = (step or 0) * (METRES_A_DEGREE if degrees else 1)
        if name == "longitudes":
            metres *= float(np.cos(np.radians(np.median(y))))
        if metres > LARGEST_M:
            log.warning(
                "%s: its %s are rounded to %g %s, so points lie up to %.1f m beside where they belong, perhaps on "
                "another building. Get the file with more decimals.",
                source, name, step, "degrees" if degrees else "m", metres / 2,
            )  # fmt: skip
