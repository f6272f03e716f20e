"""Find numbers that stand for no value, wrong units and rounded positions."""

from __future__ import annotations

from collections.abc import Sequence
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


FILLS = (3.4028235e38, 1.70141e38, 9.96921e36, 1e20)
"""Either sign, with any number of digits: what rasters have for no value (GDAL and Esri, Surfer, NetCDF, CF)."""
HUGE, SAME_DIGITS = 1e19, 1e-5


NO_HEIGHT_M = -999.0
"""No building stands so low, and it is written where a height is not known."""


def ends_of(values: NDArray[np.floating], without: float = 0.0) -> tuple[float, float]:
    """Return the largest and the smallest value, without NaN; `without` takes part, and is both in an empty array."""
    return (
        float(np.fmax.reduce(values, axis=None, initial=without)),
        float(np.fmin.reduce(values, axis=None, initial=without)),
    )


def usual_codes(values: NDArray[np.floating]) -> list[float]:
    """Return the members of `CODES` and `FILLS` among the values, of either sign."""
    # Most tables have none, and one comparison with their largest value shows it.
    most, least = ends_of(values)
    if max(most, -least) < CODES[0]:
        return []
    size = np.abs(values)
    found = np.isin(size, CODES)
    for fill in FILLS if max(most, -least) >= HUGE else ():
        found |= equals(size, fill)
    return [float(code) for code in np.unique(values[found])]


def equals(values: NDArray[np.floating], code: float) -> NDArray[np.bool_]:
    """Return where values are a code; one of `FILLS` may be written with fewer digits."""
    if abs(code) < HUGE:
        return np.asarray(values == values.dtype.type(code))
    return np.asarray(np.abs(values.astype(float) / code - 1) < SAME_DIGITS)


FEWEST = 3
"""Cells that must hold exactly the same number: an outlier is none that repeats."""
FAR = 2.0
"""Times its series' whole range that the number must lie off the rest of the series."""
FAR_FROM_ALL = 3.0
"""Times the interquartile range of all series, at least."""
SERIES_FAR = 0.5
"""Share of the series with the number in which it must lie so far off."""
SERIES_LOOKED_AT = 500
SAMPLED = 50_000
MOST_CODES = 8
FEWEST_ZEROS = 10
ZEROS_MORE = 10.0
"""Times more often than the values beside it that 0 must stand there, to be none of them."""
LEVELS = 4
"""Fewer different values about 0 do not show how often 0 would stand there by chance."""
REFERENCE_SHARE = 0.9
"""Of the points that are 0 at an epoch that all series count from."""
OWN_REFERENCE_SHARE = 0.95
"""Of the series that have a 0, where each counts from an epoch of its own."""
Values = NDArray[np.floating]


class Missing:
    """Codes for missing values in one product: as stated, or as found in the blocks read so far."""

    def __init__(self, source: object, stated: Sequence[float | str] | None) -> None:
        """Begin a product.

        Args:
            source: names it in messages.
            stated: `missing` of `ingest.products`; None: they are looked for.
        """
        self._source, self._finds = source, stated is None
        numbers = [value for value in stated or () if not isinstance(value, str)]
        self._codes = dict.fromkeys((float(value) for value in numbers), 0)
        self._cells = 0

    def drop(self, values_PT: Values) -> None:
        """Replace codes for missing values by NaN, in place, in series (P, T) as they are in the file."""
        self._cells += values_PT.size
        if self._finds:
            for code in (*usual_codes(values_PT), *find_codes(values_PT)):
                self._codes.setdefault(code, 0)
        for code in self._codes:
            equal = equals(values_PT, code)
            count = int(equal.sum())
            if count and code == 0 and self._finds:
                equal &= ~(_reference_rows(values_PT) | _reference_columns(values_PT))
                count = int(equal.sum())
            if count:
                self._codes[code] += count
                values_PT[equal] = np.nan

    def drop_in_column(self, values: Values, is_height: bool = False) -> None:
        """Replace stated and usual codes by NaN, in place, in a column other than a series."""
        values[np.isin(values, usual_codes(values)) | self.stated(values)] = np.nan
        if is_height:  # it is possible only for displacements
            values[values == NO_HEIGHT_M] = np.nan

    def stated(self, values: Values) -> NDArray[np.bool_]:
        """Return where values are a stated code."""
        found = np.zeros(values.shape, bool)
        for code in () if self._finds else self._codes:
            found |= equals(values, code)
        return found

    def tell(self) -> None:
        """Warn at the end of the product about codes that were found but not stated, and reset the counts."""
        if not self._finds:
            return
        for code, count in self._codes.items():
            if count:
                why = "more often than by chance" if code == 0 else "far off what else is there"
                log.warning(
                    "%s: %d of %d displacements are exactly %.7g, %s: taken as missing. State missing: [%.7g] in "
                    "ingest.products, or missing: [] where they are real.",
                    self._source,
                    count,
                    self._cells,
                    code,
                    why,
                    code,
                )
        self._codes, self._cells = dict.fromkeys(self._codes, 0), 0


def find_codes(values_PT: Values) -> list[float]:
    """Find codes in series (P, T): numbers that repeat exactly, far outside of their series; 0 by its share."""
    some_PT = values_PT[:: max(1, values_PT.size // SAMPLED)]
    # Of different values: a code counts once, whatever share of the cells it has.
    usual = np.unique(some_PT[np.isfinite(some_PT)])
    if len(usual) < LEVELS:
        return []
    low, middle, high = (float(value) for value in np.quantile(usual, (0.25, 0.5, 0.75)))
    found = _extremes(values_PT, middle, FAR_FROM_ALL * (high - low))
    if _zero_is_code(some_PT, usual):
        found.append(0.0)
    return found


def _extremes(values_PT: Values, middle: float, far: float) -> list[float]:
    found: list[float] = []
    rest = values_PT[
        ((values_PT > middle + far) | (values_PT < middle - far)).any(axis=1)
    ]  # few series have any of them
    for most in (np.fmax, np.fmin):
        for _ in range(MOST_CODES):
            code = float(most.reduce(rest, axis=None, initial=middle))
            if abs(code - middle) <= far:
                break
            equal = rest == code
            rest[equal] = np.nan
            if np.count_nonzero(equal) >= FEWEST and _is_far(code, rest[equal.any(axis=1)][:SERIES_LOOKED_AT], far):
                found.append(code)
    return found


def _is_far(code: float, rest_PT: Values, far: float) -> bool:
    """Return whether a number lies far from the other values in the series that contain it."""
    known = rest_PT[np.isfinite(rest_PT).any(axis=1)]
    if not len(known):  # whole series of it
        return True
    least, most = np.fmin.reduce(known, axis=1).astype(float), np.fmax.reduce(known, axis=1).astype(float)
    gap = np.maximum(least - code, code - most)
    return bool(np.mean(gap > np.maximum(FAR * (most - least), far)) >= SERIES_FAR)


def _zero_is_code(values_PT: Values, usual: Values) -> bool:
    """Return whether 0 is more frequent than chance and reference points or epochs explain."""
    zero = values_PT == 0
    if int(zero.sum()) < FEWEST_ZEROS:
        return False
    zero &= ~(_reference_rows(values_PT) | _reference_columns(values_PT))
    zeros = int(zero.sum())
    if zeros < FEWEST_ZEROS:
        return False
    with_zero = int(np.count_nonzero(zero.any(axis=1)))
    if with_zero > OWN_REFERENCE_SHARE * len(zero):
        zeros -= with_zero
    band = float(np.median(np.abs(usual[usual != 0]))) / 2
    beside = values_PT[(np.abs(values_PT) < band) & ~(values_PT == 0)]
    levels = len(np.unique(beside))
    return levels >= LEVELS and zeros > ZEROS_MORE * len(beside) / levels


def _reference_rows(values_PT: Values) -> NDArray[np.bool_]:
    """Return (P, 1) whether a point is 0 throughout: a reference point."""
    return np.asarray(((values_PT == 0) | np.isnan(values_PT)).all(axis=1, keepdims=True))


def _reference_columns(values_PT: Values) -> NDArray[np.bool_]:
    """Return (1, T) whether most points are 0 at an epoch: a reference epoch."""
    known = np.maximum((~np.isnan(values_PT)).sum(axis=0, keepdims=True), 1)
    return np.asarray((values_PT == 0).sum(axis=0, keepdims=True) > REFERENCE_SHARE * known)
