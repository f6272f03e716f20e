"""Check the values of one product: unit of displacements, rounded positions, codes of missing values."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log

LEAST_TYPICAL_MM, MOST_TYPICAL_MM = 0.02, 500.0
"""Of a city's displacements the median is some millimetres, of its noise alone as of years of subsidence."""


class Sizes(NamedTuple):
    """Counts of displacements by size; the counts of a file's parts add up."""

    known: int
    small: int
    """Of them, within `LEAST_TYPICAL_MM`."""
    large: int
    """Of them, from `MOST_TYPICAL_MM` on."""

    def plus(self, other: Sizes) -> Sizes:
        """Return the sums of both counts."""
        return Sizes(self.known + other.known, self.small + other.small, self.large + other.large)


def sizes_of(displacement: NDArray[np.float32], most: int) -> Sizes:
    """Count displacements (P, T), mm, by size, in a sample of less than 2 `most` points."""
    size = np.abs(displacement[:: max(1, len(displacement) // most)])
    known = int(np.isfinite(size).sum())
    return Sizes(known, int((size <= LEAST_TYPICAL_MM).sum()), int((size >= MOST_TYPICAL_MM).sum()))


def warn_of_unit(path: Path, sizes: Sizes, can_be_stated: bool) -> None:
    """Warn if half of the displacements are smaller or larger than those of any city.

    Args:
        path: the product.
        sizes: of all of its parts.
        can_be_stated: whether `units` in `ingest.products` means something for its format.
    """
    known, small, large = sizes
    if not known or 2 * max(small, large) < known:
        return
    found = f"at most {LEAST_TYPICAL_MM:g} mm" if small >= large else f"{MOST_TYPICAL_MM:g} mm and more"
    advice = (
        "units in ingest.products states it (docs/formats.md)."
        if can_be_stated
        else "Its format is in mm, and nothing else can be stated of it: convert the file, or download it again."
    )
    log.warning("%s: half of its displacements are %s. Are they in another unit than is taken? %s", path, found, advice)


LARGEST_M = 2.0
"""Steps up to here are no more than what a radar's own places err by."""
METRES_A_DEGREE = 111_000.0
FINEST, COARSEST = -5, 3
"""Powers of ten that are tried."""
FEWEST_VALUES, DISTINCT = 30, 5
"""Fewer points, or fewer places of them, may have a common step by chance."""
NEAR = 1e-3
"""Steps that a place may be off a multiple, for what doubles and projections round themselves."""


def step_of(values: NDArray[np.float64]) -> float | None:
    """Return the largest power of ten that divides all values; None if it is finer than tried, or for few values."""
    if len(values) < FEWEST_VALUES:
        return None
    for power in range(COARSEST, FINEST - 1, -1):
        count = values / 10.0**power
        if np.abs(count - np.round(count)).max(initial=0) < NEAR and len(np.unique(np.round(count))) >= DISTINCT:
            return float(10.0**power)
    return None


def warn_of_rounding(source: object, x: NDArray[np.float64], y: NDArray[np.float64], degrees: bool) -> None:
    """Warn if rounded positions are further apart than points of one building.

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
                source,
                name,
                step,
                "degrees" if degrees else "m",
                metres / 2,
            )


CODES = (9999.0, 99999.0, 999999.0, 32767.0, 32768.0)
"""Either sign. What programs write where there is nothing; a displacement of exactly so many units there is not."""


NO_HEIGHT_M = -999.0
"""No building stands so low, and it is written where a height is not known."""


def ends_of(values: NDArray[np.floating], without: float = 0.0) -> tuple[float, float]:
    """Return the largest and the smallest value, without NaN; `without` takes part, and is both in an empty array."""
    return (
        float(np.fmax.reduce(values, axis=None, initial=without)),
        float(np.fmin.reduce(values, axis=None, initial=without)),
    )


def usual_codes(values: NDArray[np.floating]) -> list[float]:
    """Return the members of `CODES` among the values, of either sign."""
    # Most tables have none, and one comparison with their largest value shows it.
    most, least = ends_of(values)
    if max(most, -least) < CODES[0]:
        return []
    return [float(code) for code in np.unique(values[np.isin(np.abs(values), CODES)])]


def drop_codes(values: NDArray[np.floating]) -> None:
    """Replace each of `CODES` by NaN, in place."""
    values[np.isin(values, usual_codes(values))] = np.nan


def drop_height_codes(values: NDArray[np.floating]) -> None:
    """Replace codes in heights, m, by NaN, in place: `CODES`, and -999, which is possible only for displacements."""
    drop_codes(values)
    values[values == NO_HEIGHT_M] = np.nan
