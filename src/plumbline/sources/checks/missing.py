"""Find numbers that stand for "no value" in series of displacements, and make them missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.sources.checks.values import ends_of, usual_codes

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
            equal = values_PT == values_PT.dtype.type(code)
            count = int(equal.sum())
            if count and code == 0 and self._finds:
                equal &= ~(_reference_rows(values_PT) | _reference_columns(values_PT))
                count = int(equal.sum())
            if count:
                self._codes[code] += count
                values_PT[equal] = np.nan

    def drop_stated(self, values: Values) -> None:
        """Replace only the stated codes by NaN, in place, in a column other than a series."""
        if not self._finds:
            for code in self._codes:
                values[values == values.dtype.type(code)] = np.nan

    def tell(self) -> None:
        """Warn at the end of the product about codes that were found but not stated, and reset the counts."""
        if not self._finds:
            return
        for code, count in self._codes.items():
            if count:
                why = "more often than by chance" if code == 0 else "far off what else is there"
                log.warning(
                    "%s: %d of %d displacements are exactly %.10g, %s: taken as missing. State missing: [%.10g] in "
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
    ends = (float(end) for end in ends_of(values_PT, middle))
    if all(abs(end - middle) <= far for end in ends):  # as nearly always
        return found
    rest = values_PT.copy()
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
