"""Find codes for missing values, wrong units and rounded positions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import warn

MIN_TYPICAL_MM, MAX_TYPICAL_MM = 0.02, 500.0
"""Bounds of the median displacement of a city: noise alone and years of subsidence give some
millimetres."""


class Sizes(NamedTuple):
    """Counts of displacements by size; the counts of a file's parts add up."""

    known: int
    """Number of displacements with a value."""
    small: int
    """Number of them within `MIN_TYPICAL_MM`."""
    large: int
    """Number of them from `MAX_TYPICAL_MM` on."""

    def plus(self, other: Sizes) -> Sizes:
        """Return the sums of both counts."""
        return Sizes(self.known + other.known, self.small + other.small, self.large + other.large)


def sizes_of(displacement: NDArray[np.float32], most: int) -> Sizes:
    """Count displacements (P, T), mm, by size, in a sample of less than 2 `most` points."""
    size = np.abs(displacement[:: max(1, len(displacement) // most)])
    n_finite = int(np.isfinite(size).sum())
    return Sizes(n_finite, int((size <= MIN_TYPICAL_MM).sum()), int((size >= MAX_TYPICAL_MM).sum()))


def warn_of_unit(path: Path, sizes: Sizes, can_be_stated: bool) -> None:
    """Warn if half of the displacements are smaller or larger than those of any city.

    Args:
        path: the product.
        sizes: of all of its parts.
        can_be_stated: whether `units` in `ingest.products` means something for its format.
    """
    n_finite, n_small, n_large = sizes
    if not n_finite or 2 * max(n_small, n_large) < n_finite:
        return
    size = (
        f"at most {MIN_TYPICAL_MM:g} mm"
        if n_small >= n_large
        else f"{MAX_TYPICAL_MM:g} mm and more"
    )
    advice = (
        "units in ingest.products states it (docs/formats.md)."
        if can_be_stated
        else "Its format is in mm, and nothing else can be stated of it: convert the file, or "
        "download it again."
    )
    warn(
        "%s: half of its displacements are %s. Are they in another unit than is taken? %s",
        path,
        size,
        advice,
        key="points.unlikely_unit",
    )


MAX_STEP_M = 2.0
"""Largest step of rounding without a warning: a radar's positions have errors of that size."""
METRES_A_DEGREE = 111_000.0
FINEST, COARSEST = -5, 3
"""Range of the powers of ten that are tried."""
MIN_VALUES, MIN_DISTINCT = 30, 5
"""Smallest numbers of points and of their places: fewer may have a common step by chance."""
MAX_STEP_DEVIATION = 1e-3
"""Largest deviation from a multiple, in steps, because doubles and projections round, too."""


def step_of(values: NDArray[np.float64]) -> float | None:
    """Return the largest power of ten that divides all values; None if it is finer than
    tried, or for few values."""
    if len(values) < MIN_VALUES:
        return None
    for power in range(COARSEST, FINEST - 1, -1):
        count = values / 10.0**power
        if (
            np.abs(count - np.round(count)).max(initial=0) < MAX_STEP_DEVIATION
            and len(np.unique(np.round(count))) >= MIN_DISTINCT
        ):
            return float(10.0**power)
    return None


def warn_of_rounding(
    source: object, x: NDArray[np.float64], y: NDArray[np.float64], degrees: bool
) -> None:
    """Warn if rounded positions are further apart than points of one building.

    Args:
        source: names the file. x, y: (N,) as the file has them. degrees: they are
            longitudes and latitudes, not metres.
    """
    for name, values in (
        ("longitudes" if degrees else "eastings", x),
        ("latitudes" if degrees else "northings", y),
    ):
        step = step_of(values)
        metres = (step or 0) * (METRES_A_DEGREE if degrees else 1)
        if name == "longitudes":
            metres *= float(np.cos(np.radians(np.median(y))))
        if metres > MAX_STEP_M:
            warn(
                "%s: its %s are rounded to %g %s, so points are up to %.1f m off, perhaps on "
                "another building. Get the file with more decimals.",
                source,
                name,
                step,
                "degrees" if degrees else "m",
                metres / 2,
                key="points.rounded_places",
            )


CODES = (9999.0, 99999.0, 999999.0, 32767.0, 32768.0)
"""Numbers of either sign that programs write for no value; no displacement is exactly one of
them."""


FILLS = (3.4028235e38, 1.70141e38, 9.96921e36, 1e20)
"""Numbers of either sign, with any number of digits, that rasters have for no value (GDAL and Esri,
Surfer, NetCDF, CF)."""
MIN_FILL, SAME_DIGITS = 1e19, 1e-5


NO_HEIGHT_M = -999.0
"""Height that is written for no value; no building is so low."""


def ends_of(values: NDArray[np.floating], without: float = 0.0) -> tuple[float, float]:
    """Return the largest and the smallest of the values and of `without`, ignoring NaN."""
    return (
        float(np.fmax.reduce(values, axis=None, initial=without)),
        float(np.fmin.reduce(values, axis=None, initial=without)),
    )


def usual_codes(values: NDArray[np.floating]) -> list[float]:
    """Return the members of `CODES` and `FILLS` among the values, of either sign."""
    # Most tables have none, and one comparison with their largest value shows it.
    highest, lowest = ends_of(values)
    if max(highest, -lowest) < CODES[0]:
        return []
    size = np.abs(values)
    is_code = np.isin(size, CODES)
    for fill in FILLS if max(highest, -lowest) >= MIN_FILL else ():
        is_code |= equals(size, fill)
    return [float(code) for code in np.unique(values[is_code])]


def equals(values: NDArray[np.floating], code: float) -> NDArray[np.bool_]:
    """Return where values are a code; one of `FILLS` may be written with fewer digits."""
    if abs(code) < MIN_FILL:
        return np.asarray(values == values.dtype.type(code))
    return np.asarray(np.abs(values.astype(float) / code - 1) < SAME_DIGITS)


MIN_REPEATS = 3
"""Smallest number of cells with exactly the same number: an outlier does not repeat."""
MIN_DISTANCE_RANGES = 2.0
"""Smallest distance of a code from the rest of its series, in ranges of that series."""
MIN_DISTANCE_IQR = 3.0
"""Smallest distance of a code from the median, in interquartile ranges of all series."""
MIN_SERIES_SHARE = 0.5
"""Smallest share of the series with a code in which it is at that distance."""
SAMPLED_SERIES = 500
SAMPLED_CELLS = 50_000
MAX_CODES = 8
MIN_ZEROS = 10
MIN_ZEROS_RATIO = 10.0
"""Smallest ratio of the frequency of 0 to that of the values beside it for which 0 is a code."""
MIN_LEVELS = 4
"""Smallest number of different values about 0: fewer do not show how often 0 occurs by chance."""
REFERENCE_SHARE = 0.9
"""Share of the points that are 0 at an epoch from which all series count."""
OWN_REFERENCE_SHARE = 0.95
"""Share of the series with a 0, where each counts from another epoch."""
Values = NDArray[np.floating]


class Missing:
    """Codes for missing values in one product: stated, or found in the blocks read so far."""

    def __init__(self, source: object, stated: Sequence[float | str] | None) -> None:
        """Begin a product.

        Args:
            source: names it in messages.
            stated: `missing` of `ingest.products`; None: they are looked for.
        """
        self._source, self._searches = source, stated is None
        numbers = [value for value in stated or () if not isinstance(value, str)]
        self._codes = dict.fromkeys((float(value) for value in numbers), 0)
        self._cells = 0

    def drop(self, values_PT: Values) -> None:
        """Replace codes for missing values by NaN, in place, in series (P, T) as they are
        in the file."""
        self._cells += values_PT.size
        if self._searches:
            for code in (*usual_codes(values_PT), *find_codes(values_PT)):
                self._codes.setdefault(code, 0)
        for code in self._codes:
            equal = equals(values_PT, code)
            count = int(equal.sum())
            if count and code == 0 and self._searches:
                equal &= ~(_reference_rows(values_PT) | _reference_columns(values_PT))
                count = int(equal.sum())
            if count:
                self._codes[code] += count
                values_PT[equal] = np.nan

    def drop_in_column(self, values: Values, is_height: bool = False) -> None:
        """Replace stated and usual codes by NaN, in place, in a column other than a series."""
        values[np.isin(values, usual_codes(values)) | self.stated(values)] = np.nan
        if is_height:  # as a displacement, it is possible
            values[values == NO_HEIGHT_M] = np.nan

    def stated(self, values: Values) -> NDArray[np.bool_]:
        """Return where values are a stated code."""
        is_stated = np.zeros(values.shape, bool)
        for code in () if self._searches else self._codes:
            is_stated |= equals(values, code)
        return is_stated

    def warn_of_codes(self) -> None:
        """Warn at the end of the product about codes that were found but not stated, and
        reset the counts."""
        if not self._searches:
            return
        for code, count in self._codes.items():
            if count:
                why = "more often than by chance" if code == 0 else "far off what else is there"
                warn(
                    "%s: %d of %d displacements are exactly %.7g, %s: taken as missing. State "
                    "missing: [%.7g] in ingest.products, or missing: [] where they are real.",
                    self._source,
                    count,
                    self._cells,
                    code,
                    why,
                    code,
                    key="points.unstated_code",
                )
        self._codes, self._cells = dict.fromkeys(self._codes, 0), 0


def find_codes(values_PT: Values) -> list[float]:
    """Find codes in series (P, T): numbers that repeat exactly, far outside of their
    series; 0 by its share."""
    some_PT = values_PT[:: max(1, values_PT.size // SAMPLED_CELLS)]
    # Of different values: a code counts once, whatever share of the cells it has.
    usual = np.unique(some_PT[np.isfinite(some_PT)])
    if len(usual) < MIN_LEVELS:
        return []
    low, middle, high = (float(value) for value in np.quantile(usual, (0.25, 0.5, 0.75)))
    codes = _find_extremes(values_PT, middle, MIN_DISTANCE_IQR * (high - low))
    if _zero_is_code(some_PT, usual):
        codes.append(0.0)
    return codes


def _find_extremes(values_PT: Values, middle: float, min_distance: float) -> list[float]:
    codes: list[float] = []
    series_PT = values_PT[
        ((values_PT > middle + min_distance) | (values_PT < middle - min_distance)).any(axis=1)
    ]  # few series have any of them
    for extreme in (np.fmax, np.fmin):
        for _ in range(MAX_CODES):
            code = float(extreme.reduce(series_PT, axis=None, initial=middle))
            if abs(code - middle) <= min_distance:
                break
            equal = series_PT == code
            series_PT[equal] = np.nan
            if np.count_nonzero(equal) >= MIN_REPEATS and _is_far(
                code, series_PT[equal.any(axis=1)][:SAMPLED_SERIES], min_distance
            ):
                codes.append(code)
    return codes


def _is_far(code: float, rest_PT: Values, min_distance: float) -> bool:
    """Return whether a number is far from the other values in the series that contain it."""
    filled_PT = rest_PT[np.isfinite(rest_PT).any(axis=1)]
    if not len(filled_PT):  # whole series of it
        return True
    lowest, highest = (
        np.fmin.reduce(filled_PT, axis=1).astype(float),
        np.fmax.reduce(filled_PT, axis=1).astype(float),
    )
    gap = np.maximum(lowest - code, code - highest)
    return bool(
        np.mean(gap > np.maximum(MIN_DISTANCE_RANGES * (highest - lowest), min_distance))
        >= MIN_SERIES_SHARE
    )


def _zero_is_code(values_PT: Values, usual: Values) -> bool:
    """Return whether 0 is more frequent than chance and reference points or epochs explain."""
    zero = values_PT == 0
    if int(zero.sum()) < MIN_ZEROS:
        return False
    zero &= ~(_reference_rows(values_PT) | _reference_columns(values_PT))
    zeros = int(zero.sum())
    if zeros < MIN_ZEROS:
        return False
    with_zero = int(np.count_nonzero(zero.any(axis=1)))
    # A series that counts from one of its epochs is 0 there: one 0 each is no code.
    if with_zero > OWN_REFERENCE_SHARE * len(zero):
        zeros -= with_zero
    band = float(np.median(np.abs(usual[usual != 0]))) / 2
    beside = values_PT[(np.abs(values_PT) < band) & ~(values_PT == 0)]
    # Rounded values repeat: by chance, 0 would be as frequent as one level of the values beside it.
    levels = len(np.unique(beside))
    return levels >= MIN_LEVELS and zeros > MIN_ZEROS_RATIO * len(beside) / levels


def _reference_rows(values_PT: Values) -> NDArray[np.bool_]:
    """Return (P, 1) whether a point is 0 throughout: a reference point."""
    return np.asarray(((values_PT == 0) | np.isnan(values_PT)).all(axis=1, keepdims=True))


def _reference_columns(values_PT: Values) -> NDArray[np.bool_]:
    """Return (1, T) whether most points are 0 at an epoch: a reference epoch."""
    n_values = np.maximum((~np.isnan(values_PT)).sum(axis=0, keepdims=True), 1)
    return np.asarray((values_PT == 0).sum(axis=0, keepdims=True) > REFERENCE_SHARE * n_values)
